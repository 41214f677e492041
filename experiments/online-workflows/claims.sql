-- A number for each claim of the paper, in one row. Shares are of the orders of arrival. What is
-- not about the end of all is told of servers between which results take no time.
WITH played AS (
    SELECT * FROM study_online WHERE latency = 0
),
bound AS (  -- by how much the end of all is above the lower bound, on average, in percent
    SELECT latency, policy, avg(excess) AS excess FROM study_online GROUP BY latency, policy
),
mean_of_all AS (  -- the mean slowdown under each policy, a row for each order of arrival
    SELECT
        latency,
        max(slowdown_mean) FILTER (WHERE policy = 'srpt') AS srpt,
        max(slowdown_mean) FILTER (WHERE policy = 'foft') AS foft,
        max(slowdown_mean) FILTER (WHERE policy = 'aging-exp') AS aging_exp,
        max(slowdown_mean) FILTER (WHERE policy = 'fcfs') AS fcfs,
        max(slowdown_mean) FILTER (WHERE policy = 'basic') AS basic,
        max(slowdown_mean) FILTER (WHERE policy = 'aging') AS aging,
        max(slowdown_mean) FILTER (WHERE policy = 'g-heft') AS g_heft
    FROM study_online GROUP BY arrival, latency
),
mean AS (
    SELECT * FROM mean_of_all WHERE latency = 0
),
fair AS (  -- the largest dispersion of the two fair ones, and the smallest of the others
    SELECT
        max(fairness_range) FILTER (WHERE policy IN ('foft', 'aging-exp'))
            < min(fairness_range) FILTER (WHERE policy NOT IN ('foft', 'aging-exp')) AS by_range,
        max(fairness_interquartile) FILTER (WHERE policy IN ('foft', 'aging-exp'))
            < min(fairness_interquartile) FILTER (WHERE policy NOT IN ('foft', 'aging-exp'))
            AS by_interquartile,
        max(fairness_average) FILTER (WHERE policy IN ('foft', 'aging-exp'))
            < min(fairness_average) FILTER (WHERE policy NOT IN ('foft', 'aging-exp')) AS by_average,
        max(fairness_std) FILTER (WHERE policy IN ('foft', 'aging-exp'))
            < min(fairness_std) FILTER (WHERE policy NOT IN ('foft', 'aging-exp')) AS by_std
    FROM played GROUP BY arrival
),
workflow AS MATERIALIZED (
    SELECT policy, applications ->> key AS application, value AS slowdown
    FROM played, json_each(slowdowns)
),
kind AS (  -- the mean slowdown of each application under each policy
    SELECT policy, application, avg(slowdown) AS slowdown FROM workflow GROUP BY policy, application
),
uneven AS (  -- how many times as much the application suffers that suffers most
    SELECT
        policy,
        max(slowdown) / min(slowdown) AS ratio,
        max(slowdown) FILTER (WHERE application = 'maxdo')
            / avg(slowdown) FILTER (WHERE application <> 'maxdo') AS maxdo
    FROM kind GROUP BY policy
),
ending AS (  -- when workflows end, on average, and how many in the last tenth of the time
    SELECT policy, avg(value) AS mean_end, avg(value > 0.9 * makespan) AS late
    FROM played, json_each(ends) GROUP BY policy
),
waiting AS MATERIALIZED (
    SELECT policy, arrival, ready_at ->> key AS second, value AS ready
    FROM played, json_each(ready)
),
minute AS (  -- how many tasks were ready, on average, in each minute in which that changed
    SELECT policy, arrival, cast(second / 60 AS integer) AS minute, avg(ready) AS ready
    FROM waiting GROUP BY policy, arrival, minute
),
wave AS (  -- minutes with ten ready tasks more than the ones before and after them
    SELECT policy, sum(crest) * 1.0 / count(DISTINCT arrival) AS crests FROM (
        SELECT policy, arrival,
            ready > lag(ready) OVER w + 10 AND ready > lead(ready) OVER w + 10 AS crest
        FROM minute WINDOW w AS (PARTITION BY policy, arrival ORDER BY minute)
    ) GROUP BY policy
)
SELECT
    (SELECT max(excess) FROM bound WHERE latency = 0) AS most_at_once,
    (SELECT min(excess) FROM bound WHERE latency = 0) AS least_at_once,
    (SELECT max(excess) FROM bound WHERE latency > 0) AS most_late,
    (SELECT min(excess) FROM bound WHERE latency > 0 AND policy <> 'basic') AS least_late,
    (SELECT excess FROM bound WHERE latency > 0 AND policy = 'basic') AS basic_late,
    (SELECT max(excess) - min(excess) FROM bound WHERE latency > 0 AND policy <> 'basic')
        AS makespans_apart,
    (SELECT avg(srpt < min(foft, aging_exp, fcfs, basic, aging, g_heft)) FROM mean) AS srpt_lowest,
    (SELECT avg(srpt < foft AND foft < aging_exp AND aging_exp < fcfs AND fcfs < g_heft) FROM mean)
        AS order_of_five,
    (SELECT avg(g_heft > max(srpt, foft, aging_exp, fcfs, basic, aging)) FROM mean) AS g_heft_worst,
    (SELECT avg(aging_exp < aging AND aging < g_heft) FROM mean) AS age_helps,
    (SELECT avg(max(foft, aging_exp) < basic) FROM mean) AS fair_below_basic,
    (SELECT avg(by_range) FROM fair) AS fairest_by_range,
    (SELECT avg(by_interquartile) FROM fair) AS fairest_by_interquartile,
    (SELECT avg(by_average) FROM fair) AS fairest_by_average,
    (SELECT avg(by_std) FROM fair) AS fairest_by_std,
    (SELECT maxdo FROM uneven WHERE policy = 'srpt') AS srpt_to_maxdo,
    (SELECT maxdo FROM uneven WHERE policy = 'fcfs') AS fcfs_to_maxdo,
    (SELECT ratio FROM uneven WHERE policy = 'foft') AS foft_uneven,
    (SELECT min(ratio) FROM uneven WHERE policy NOT IN ('foft', 'aging-exp')) AS others_uneven,
    (SELECT max(mean_end) FILTER (WHERE policy IN ('foft', 'fcfs', 'srpt', 'aging-exp'))
        / min(mean_end) FILTER (WHERE policy IN ('g-heft', 'aging', 'basic')) FROM ending)
        AS earlier,
    (SELECT late FROM ending WHERE policy = 'g-heft') AS g_heft_late,
    (SELECT late FROM ending WHERE policy = 'aging') AS aging_late,
    (SELECT max(late) FROM ending WHERE policy NOT IN ('g-heft', 'aging')) AS others_late,
    (SELECT crests FROM wave WHERE policy = 'g-heft') AS g_heft_waves,
    (SELECT crests FROM wave WHERE policy = 'aging') AS aging_waves,
    (SELECT max(crests) FROM wave WHERE policy NOT IN ('g-heft', 'aging')) AS others_waves,
    (SELECT avg(srpt < foft AND foft < aging_exp AND aging_exp < fcfs AND fcfs < g_heft)
        FROM mean_of_all WHERE latency > 0) AS order_late
