"""Three jobs by DRMAA: an index each, waited for, and what they printed."""

from pathlib import Path

from zenturio import drmaa

with drmaa.Session("local") as session:  # or "hosts.toml", "slurm", ...
    template = session.createJobTemplate()
    template.remoteCommand = "sh"
    template.args = ["-c", "echo $(($1 * $1))", "square", drmaa.PARAMETRIC_INDEX]
    template.outputPath = f":square.{drmaa.PARAMETRIC_INDEX}"
    jobs = session.runBulkJobs(template, 1, 3)
    session.synchronize(jobs)
    print("exit statuses:", *(session.wait(job).exitStatus for job in jobs))

print("squares:", *(Path(f"square.{i}").read_text().strip() for i in (1, 2, 3)))
