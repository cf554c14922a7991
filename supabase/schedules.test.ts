import { globSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";

/**
 * Matches the schedules that pg_cron accepts: five fields, or 1 to 59 seconds. pg_cron refuses any other interval when
 * the migration is applied.
 */
const field = String.raw`[\d*/,-]+`;
const schedule = new RegExp(`^(?:${field}(?: ${field}){4}|(?:[1-9]|[1-5]\\d) seconds)$`);

const jobs = globSync("supabase/migrations/*.sql").flatMap((file) => {
  const text = readFileSync(file, "utf8");
  const calls = text.match(/cron\.schedule\s*\(/g) ?? [];
  const told = [...text.matchAll(/cron\.schedule\s*\(\s*'([^']+)',\s*'([^']+)'/g)];
  return calls.map((_, index) => ({ file, name: told[index]?.[1] ?? "a job", when: told[index]?.[2] ?? "" }));
});

describe("Scheduled jobs of the database", () => {
  test.each(jobs)("the job $name of $file runs at “$when”, which pg_cron accepts", ({ when }) => {
    expect(when).toMatch(schedule);
  });

  test("finds the scheduled jobs in the migrations", () => {
    expect(jobs.length).toBeGreaterThan(5);
  });

  test.each(["1 seconds", "59 seconds", "* * * * *", "*/10 0-4 1,15 * *"])("accepts the schedule %s", (when) => {
    expect(when).toMatch(schedule);
  });

  test.each(["0 seconds", "60 seconds", "5 minutes", "* * * *", ""])("refuses the schedule “%s”", (when) => {
    expect(when).not.toMatch(schedule);
  });
});
