-- Tables 1 and 2 with their generations and evaluations, and Table 3 in milliseconds.
SELECT 'Table 1' AS tbl, l.tasks, l.workflow, l.selection AS setting, l.mutation AS value,
    100.0 * avg(l.net < o.net * (1 + 1e-9)) AS success, avg(l.settled) AS generations,
    1000 * avg(l.ctime) AS ms
FROM study_local l JOIN study_local o ON o.workflow = l.workflow AND o.exact AND o.seed = 1
WHERE NOT l.exact GROUP BY l.workflow, l.selection, l.mutation
UNION ALL
SELECT 'Table 2', tasks, workflow, 'alpha', alpha, NULL, avg(settled), 1000 * avg(ctime)
FROM study_global WHERE algorithm = 'moldable-global' GROUP BY workflow, alpha
UNION ALL
SELECT 'Table 3', tasks, workflow, 'population', population, NULL, NULL, 2 * (
    min(ctime) FILTER (WHERE generations = 501) - min(ctime) FILTER (WHERE generations = 1))
FROM study_speed GROUP BY workflow, population
ORDER BY 1, 2, 3, 4, 5
