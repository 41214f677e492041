# The study, its tables, its pictures, and a number for each claim. SIZE=small: fewer orders of arrival.
set -eu

if [ "${SIZE:-whole}" = small ]; then
    sed -i 's/REPEAT 20/REPEAT 1/' servers.toml
fi
zen run servers.toml --name online

zen results online --by policy --metric excess,slowdown_mean,fairness_range,fairness_interquartile,fairness_average,fairness_std \
    --sort slowdown_mean

zen plot --kind box --x policy --y slowdown --log y -o slowdowns.svg \
    --title "How many times as long a workflow takes as it would alone" \
    --query "SELECT policy, value AS slowdown FROM study_online, json_each(slowdowns)"

zen plot --kind box --x policy --y slowdown --facet application --log y -o applications.svg \
    --title "How many times as long it takes, by application" \
    --query "SELECT policy, s.value AS slowdown, a.value AS application
        FROM study_online, json_each(slowdowns) AS s JOIN json_each(applications) AS a ON a.key = s.key"

zen plot --x seconds --y workflows --color policy -o workflows.svg \
    --title "Workflows that are there: one order of arrival" \
    --query "SELECT policy, t.value AS seconds, n.value AS workflows
        FROM study_online, json_each(there) AS n JOIN json_each(there_at) AS t ON t.key = n.key
        WHERE arrival = 1"

zen plot --x seconds --y tasks --facet policy -o ready.svg \
    --title "Tasks that wait for nothing but a server: one order of arrival" \
    --query "SELECT policy, t.value AS seconds, n.value AS tasks
        FROM study_online, json_each(ready) AS n JOIN json_each(ready_at) AS t ON t.key = n.key
        WHERE arrival = 1"

zen sql --format jsonl -o measured.json -- "$(cat claims.sql)"
