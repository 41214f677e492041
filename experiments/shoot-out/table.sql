-- Which wins where: the mean gap of each algorithm in %, by kind of instance, the best first.
SELECT algorithm,
    round(avg(gap) FILTER (WHERE place = 2), 2) AS "graphs on 2",
    round(avg(gap) FILTER (WHERE place = 4), 2) AS "on 4",
    round(avg(gap) FILTER (WHERE place = 8), 2) AS "on 8",
    round(avg(gap) FILTER (WHERE place = 16), 2) AS "on 16",
    round(avg(gap) FILTER (WHERE place = 17), 2) AS "workflows on 4",
    round(avg(gap) FILTER (WHERE place = 18), 2) AS "on 16",
    round(avg(gap) FILTER (WHERE place = 19), 2) AS "cluster",
    round(avg(gap) FILTER (WHERE place = 20), 2) AS "Grid",
    round(100.0 * avg(gap = 0)) AS "reached %", round(max(gap), 1) AS worst,
    round(1000 * avg(ctime), 1) AS ms
FROM runs GROUP BY algorithm ORDER BY avg(gap)
