-- A number for each claim, in one row; NULL what the small size does not run.
WITH table_1 AS (  -- how often each workflow's optimum was found, in %, and after how many generations
    SELECT l.tasks, l.selection, l.mutation, 100.0 * avg(l.net < o.net * (1 + 1e-9)) AS success,
        avg(l.settled) FILTER (WHERE l.net < o.net * (1 + 1e-9)) AS settled
    FROM study_local l
    JOIN (SELECT workflow, max(net) AS net FROM study_local WHERE exact GROUP BY workflow) o
        USING (workflow)
    WHERE NOT l.exact
    GROUP BY l.workflow, l.selection, l.mutation
),
numbers AS (SELECT n.value AS nodes FROM study_local, json_each(nodes) n WHERE exact),
shaped AS (  -- runs of Figures 4 to 7, with what makes them one
    SELECT *, CASE algorithm WHEN 'moldable-global' THEN 'on demand'
        WHEN 'moldable-static' THEN 'static' ELSE 'printed' END AS paid,
        CASE WHEN tasks <= 8 THEN 25 WHEN tasks <= 16 THEN 50 WHEN tasks <= 63 THEN 100
            ELSE 150 END AS population
    FROM study_global
),
mean AS (
    SELECT workflow, paid, alpha, avg(makespan) AS makespan, avg(node_seconds) AS cost,
        avg(unused) AS unused, min(makespan) AS shortest, max(makespan) AS longest,
        avg(settled * population) AS evaluations
    FROM shaped GROUP BY workflow, paid, alpha
),
neighbours AS (  -- two weights that follow each other
    SELECT *, lead(makespan) OVER step AS later, lead(cost) OVER step AS cheaper,
        lead(shortest) OVER step AS later_shortest
    FROM mean WHERE paid = 'on demand' WINDOW step AS (PARTITION BY workflow ORDER BY alpha DESC)
),
trade AS (  -- what a saving of a tenth of the cost takes, from the shortest of all plans on
    SELECT s.workflow, 100 * (min(s.makespan) / b.makespan - 1) AS longer
    FROM shaped s
    JOIN (SELECT workflow, min(makespan) AS makespan, node_seconds AS cost FROM shaped
          WHERE paid = 'on demand' GROUP BY workflow) b USING (workflow)
    WHERE s.paid = 'on demand' AND s.node_seconds <= 0.9 * b.cost
    GROUP BY s.workflow
),
front AS (  -- of all runs of the independent tasks those that no other is better than
    SELECT DISTINCT alpha, makespan, node_seconds FROM shaped a
    WHERE paid = 'on demand' AND workflow = 'kwave-independent:simulations=32' AND NOT EXISTS (
        SELECT 1 FROM shaped b WHERE b.paid = a.paid AND b.workflow = a.workflow
            AND b.makespan <= a.makespan AND b.node_seconds <= a.node_seconds
            AND (b.makespan < a.makespan OR b.node_seconds < a.node_seconds))
),
settled AS (SELECT alpha, avg(makespan) AS makespan, avg(node_seconds) AS cost
    FROM study_recommended GROUP BY alpha),
straight AS (  -- Pearson's correlation of makespan and unused nodes
    SELECT paid, (count(*) * sum(makespan * unused) - sum(makespan) * sum(unused))
        / sqrt((count(*) * sum(makespan * makespan) - sum(makespan) * sum(makespan))
             * (count(*) * sum(unused * unused) - sum(unused) * sum(unused))) AS r
    FROM shaped WHERE workflow = 'kwave-barrier:simulations=15' GROUP BY paid
),
best AS (  -- the plan of the best fitness, of Figures 8 to 10
    SELECT tasks, curve = 'exponent=0.9' AS ours, algorithm LIKE '%local' AS local,
        algorithm LIKE '%static%' AS static, min(ifnull(fitness, 0)), makespan,
        node_seconds AS cost, unused
    FROM study_schedules GROUP BY tasks, curve, algorithm
),
turned AS (  -- what the two global fitness functions change against the local one, in %
    SELECT g.tasks, g.ours, g.static, 100 * (g.makespan / l.makespan - 1) AS makespan,
        100 * (g.cost / l.cost - 1) AS cost, 100 * g.unused AS unused, 100 * l.unused AS before
    FROM best g JOIN best l ON l.tasks = g.tasks AND l.ours = g.ours AND l.local
    WHERE NOT g.local
),
generation AS (  -- milliseconds of processor time, of the quickest run
    SELECT workflow, tasks, population, 1000 * (min(ctime) FILTER (WHERE generations = 501)
        - min(ctime) FILTER (WHERE generations = 1)) / 500 AS ms
    FROM study_speed GROUP BY workflow, population
),
paper_3(tasks, population, ms) AS (VALUES  -- Table 3, in ms
    (7, 25, 4), (8, 25, 5), (15, 25, 10), (16, 25, 10),
    (7, 50, 7), (8, 50, 9), (15, 50, 19), (16, 50, 21), (31, 50, 40), (32, 50, 43), (63, 50, 112),
    (64, 50, 120), (7, 100, 13), (8, 100, 18), (15, 100, 37), (16, 100, 43), (31, 100, 77),
    (32, 100, 88), (63, 100, 227), (64, 100, 220), (31, 150, 110), (32, 150, 132),
    (63, 150, 382), (64, 150, 335)
),
table_3 AS (  -- each cell by that of 150 individuals and 64 tasks, against the same of the paper
    SELECT g.ms / l.ms / (p.ms / 335.0) AS ratio
    FROM paper_3 p JOIN generation g USING (tasks, population)
    JOIN generation l ON l.tasks = 64 AND l.population = 150 AND l.workflow LIKE '%barrier%'
    WHERE g.workflow NOT LIKE '%independent%'
),
others AS (
    SELECT workflow, algorithm, queue, avg(makespan) AS makespan, avg(node_seconds) AS cost
    FROM study_beyond GROUP BY workflow, algorithm, queue
),
fronts AS (  -- the plans of the first search for a front
    SELECT workflow, l.value AS makespan, c.value AS cost
    FROM study_beyond, json_each(lengths) l JOIN json_each(costs) c ON c.key = l.key
    WHERE algorithm = 'moldable-front' AND queue = 'fifo' AND seed = 1
)
SELECT
    (SELECT min(success) FROM table_1 WHERE selection = 'steady' AND mutation = 0.01
        AND tasks > 16) AS local_large,
    (SELECT min(success) FROM table_1 WHERE selection = 'steady' AND mutation = 0.01
        AND tasks <= 16) AS local_small,
    (SELECT min(success) FROM table_1 WHERE selection = 'steady' AND mutation = 0.01
        AND tasks = 7) AS local_7,
    (SELECT min(success) FROM table_1 WHERE selection = 'steady' AND mutation = 0.01
        AND tasks = 8) AS local_8,
    (SELECT min(success) FROM table_1 WHERE selection = 'steady' AND mutation = 0.01
        AND tasks = 15) AS local_15,
    (SELECT min(success) FROM table_1 WHERE selection = 'steady' AND mutation = 0.01
        AND tasks = 16) AS local_16,
    (SELECT min(success) FROM table_1 WHERE selection = 'steady' AND mutation = 0.01
        AND tasks = 31) AS local_31,
    (SELECT min(success) FROM table_1 WHERE selection = 'steady' AND mutation = 0.01
        AND tasks = 32) AS local_32,
    (SELECT min(success) FROM table_1 WHERE selection = 'steady' AND mutation = 0.01
        AND tasks = 63) AS local_63,
    (SELECT min(success) FROM table_1 WHERE selection = 'steady' AND mutation = 0.01
        AND tasks = 64) AS local_64,
    (SELECT ln(avg(ctime) FILTER (WHERE tasks = 64) / avg(ctime) FILTER (WHERE tasks = 7))
        / ln(64.0 / 7) FROM study_local WHERE NOT exact AND selection = 'steady'
        AND mutation = 0.01) AS local_exponent,
    (SELECT min(success) FROM table_1 WHERE mutation = 0.1 AND tasks <= 8) AS local_one_gene,
    (SELECT max(success) FROM table_1 WHERE selection = 'roulette' AND tasks = 15) AS roulette,
    (SELECT min(success) FROM table_1 WHERE selection = 'rank' AND tasks > 16) AS rank_large,
    (SELECT min(success) FROM table_1 WHERE selection = 'tournament' AND tasks > 16)
        AS tournament_large,
    (SELECT avg(ctime) FROM study_local WHERE NOT exact AND tasks = 64 AND selection = 'steady'
        AND mutation = 0.01) AS local_seconds,
    (SELECT 100.0 * avg(nodes IN (2, 35)) FROM numbers) AS nodes_35_2,
    (SELECT avg(settled) FROM table_1 WHERE selection = 'steady' AND mutation = 0.01) AS settled,
    (SELECT max(evaluations) FROM mean WHERE paid = 'on demand') AS evaluations,
    (SELECT sum(later > makespan) FROM neighbours WHERE workflow LIKE '%barrier%15') AS ordered,
    (SELECT sum(later_shortest > longest) FROM neighbours
        WHERE workflow LIKE '%barrier%15') AS apart,
    (SELECT longer FROM trade WHERE workflow LIKE '%barrier%15') AS trade,
    (SELECT count(DISTINCT alpha) FROM front) AS independent_front,
    (SELECT 100 * (min(s.cost / b.cost) - 1) FROM settled s JOIN settled b ON b.alpha = 0.05
        WHERE s.alpha IN (0.2, 0.5)) AS recommended,
    (SELECT 100 * (max(shortest) / min(shortest) - 1) FROM mean WHERE paid = 'static'
        AND workflow LIKE '%barrier%15') AS saturated,
    (SELECT 100 * max(unused) FILTER (WHERE alpha = 0.95)
        - 100 * max(unused) FILTER (WHERE alpha = 0.05) FROM mean WHERE paid = 'static'
        AND workflow LIKE '%barrier%15') AS less_unused,
    (SELECT 100 * max(unused) FROM shaped WHERE paid = 'static'
        AND workflow LIKE '%barrier%15') AS unused_most,
    (SELECT 100 * (1 - min(cost) FILTER (WHERE alpha = 0.95)
        / min(cost) FILTER (WHERE alpha = 0.05)) FROM mean WHERE paid = 'on demand'
        AND workflow LIKE '%independent%32') AS independent_95_cost,
    (SELECT 100 * (max(makespan) FILTER (WHERE alpha = 0.05)
        / max(makespan) FILTER (WHERE alpha = 0.95) - 1) FROM mean WHERE paid = 'static'
        AND workflow LIKE '%independent%32') AS static_independent,
    (SELECT r FROM straight WHERE paid = 'static') AS correlation,
    (SELECT 100 * (p.cost / s.cost - 1) FROM mean p JOIN mean s USING (workflow, alpha)
        WHERE p.paid = 'printed' AND s.paid = 'static' AND alpha = 0.05
        ORDER BY p.workflow LIKE '%independent%' DESC LIMIT 1) AS printed_cost,
    (SELECT 100 * (p.makespan / s.makespan - 1) FROM mean p JOIN mean s USING (workflow, alpha)
        WHERE p.paid = 'printed' AND s.paid = 'static' AND alpha = 0.05
        ORDER BY p.workflow LIKE '%independent%' DESC LIMIT 1) AS printed_makespan,
    (SELECT max(before) FROM turned WHERE tasks = 15 AND ours) AS unused_local_15,
    (SELECT max(before) FROM turned WHERE tasks = 16 AND ours) AS unused_local_16,
    (SELECT makespan FROM turned WHERE tasks = 15 AND ours AND NOT static) AS demand_makespan_15,
    (SELECT cost FROM turned WHERE tasks = 15 AND ours AND NOT static) AS demand_cost_15,
    (SELECT makespan FROM turned WHERE tasks = 16 AND ours AND NOT static) AS demand_makespan_16,
    (SELECT cost FROM turned WHERE tasks = 16 AND ours AND NOT static) AS demand_cost_16,
    (SELECT 100 - unused FROM turned WHERE tasks = 15 AND ours AND NOT static) AS demand_used_15,
    (SELECT 100 - unused FROM turned WHERE tasks = 16 AND ours AND NOT static) AS demand_used_16,
    (SELECT cost FROM turned WHERE tasks = 15 AND NOT ours AND NOT static) AS other_cost_15,
    (SELECT cost FROM turned WHERE tasks = 16 AND NOT ours AND NOT static) AS other_cost_16,
    (SELECT makespan FROM turned WHERE tasks = 15 AND NOT ours AND NOT static)
        AS other_makespan_15,
    (SELECT makespan FROM turned WHERE tasks = 16 AND NOT ours AND NOT static)
        AS other_makespan_16,
    (SELECT makespan FROM turned WHERE tasks = 15 AND ours AND static) AS static_makespan_15,
    (SELECT makespan FROM turned WHERE tasks = 16 AND ours AND static) AS static_makespan_16,
    (SELECT unused FROM turned WHERE tasks = 15 AND ours AND static) AS static_unused_15,
    (SELECT unused FROM turned WHERE tasks = 16 AND ours AND static) AS static_unused_16,
    (SELECT 100 * (s.makespan / d.makespan - 1) FROM best s JOIN best d USING (tasks, ours)
        WHERE tasks = 15 AND ours AND s.static AND NOT d.static AND NOT d.local)
        AS static_demand_makespan,
    (SELECT 100 * (s.cost / d.cost - 1) FROM best s JOIN best d USING (tasks, ours)
        WHERE tasks = 15 AND ours AND s.static AND NOT d.static AND NOT d.local)
        AS static_demand_cost,
    (SELECT count(*) FROM table_3) AS table_3_cells,
    (SELECT count(*) FROM table_3 WHERE ratio BETWEEN 0.5 AND 2) AS table_3_alike,
    (SELECT ms FROM generation WHERE tasks = 64 AND population = 150
        AND workflow LIKE '%barrier%') AS ms_64,
    (SELECT ms FROM generation WHERE tasks = 7 AND population = 25) AS ms_7,
    (SELECT max(ms) FILTER (WHERE workflow LIKE '%barrier%')
        / max(ms) FILTER (WHERE workflow LIKE '%independent%') FROM generation
        WHERE tasks = 64 AND population = 150) AS independent_faster,
    (SELECT 100.0 * avg(EXISTS (SELECT 1 FROM fronts f WHERE f.workflow = s.workflow
        AND f.makespan <= s.makespan * (1 + 1e-9) AND f.cost <= s.node_seconds * (1 + 1e-9)))
        FROM shaped s WHERE s.paid = 'on demand'
        AND s.workflow IN (SELECT workflow FROM fronts)) AS front_covers,
    (SELECT 100 * (max(g.makespan / c.makespan) - 1) FROM others g JOIN others c
        USING (workflow, queue) WHERE queue = 'fifo' AND c.algorithm = 'cpa'
        AND g.algorithm = 'moldable-global:alpha=1,seeded=false,polish=0') AS paper_cpa,
    (SELECT 100 * (max(g.makespan / c.makespan) - 1) FROM others g JOIN others c
        USING (workflow, queue) WHERE queue = 'fifo' AND c.algorithm = 'cpa'
        AND g.algorithm = 'moldable-global:alpha=1') AS ours_cpa,
    (SELECT 100 * (min(e.makespan / f.makespan) - 1) FROM others e JOIN others f
        USING (workflow, algorithm) WHERE e.queue = 'easy' AND f.queue = 'fifo'
        AND algorithm = 'moldable-global:alpha=1,seeded=false,polish=0') AS easy,
    (SELECT 100 * (min(e.makespan / f.makespan) - 1) FROM others e JOIN others f
        USING (workflow, algorithm) WHERE e.queue = 'easy' AND f.queue = 'fifo'
        AND algorithm = 'moldable-global:alpha=1') AS easy_ours
