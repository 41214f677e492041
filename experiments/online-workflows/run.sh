# The study, its table, its pictures, and a number for each claim; fewer orders of arrival with SIZE=small.
set -eu

if [ "${SIZE:-whole}" = small ]; then
    sed -i 's/REPEAT 20/REPEAT 3/' servers.toml
fi

# simulate: within this process. Leave it out, and each experiment is a process of its own.
zen run servers.toml --name online --on simulate

zen sql claims.sql -o measured.json
[ "${SIZE:-whole}" = whole ] || exit 0

zen results online --by latency,policy \
    --metric excess,slowdown_mean,fairness_range,fairness_interquartile,fairness_average,fairness_std

zen plot --kind box --x policy --y slowdown --log y -o slowdowns.svg \
    --title "How many times as long a workflow takes as it would alone" \
    --query "SELECT policy, value AS slowdown FROM study_online, json_each(slowdowns)
        WHERE latency = 0"

zen plot --kind box --x policy --y slowdown --facet application --log y -o applications.svg \
    --title "How many times as long it takes, by application" \
    --query "SELECT policy, value AS slowdown, applications ->> key AS application
        FROM study_online, json_each(slowdowns) WHERE latency = 0"

zen plot --x seconds --y workflows --color policy -o workflows.svg \
    --title "Workflows that are there (one order of arrival)" \
    --query "SELECT policy, there_at ->> key AS seconds, value AS workflows
        FROM study_online, json_each(there) WHERE latency = 0 AND arrival = 1"

zen plot --x seconds --y tasks --facet policy -o ready.svg \
    --title "Tasks that wait for nothing but a server (one order of arrival)" \
    --query "SELECT policy, ready_at ->> key AS seconds, value AS tasks
        FROM study_online, json_each(ready) WHERE latency = 0 AND arrival = 1"

zen plot online --kind box --x policy --y excess --color latency -o bound.svg \
    --title "How much later than the lower bound all have ended"
