import { globSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";

/** What pg_cron takes: five fields, or 1 to 59 seconds. Another interval raises while the migration is applied. */
const field = String.raw`[\d*/,-]+`;
const schedule = new RegExp(`^(?:${field}(?: ${field}){4}|(?:[1-9]|[1-5]\\d) seconds)$`);

const jobs = globSync("supabase/migrations/*.sql").flatMap((file) => {
  const text = readFileSync(file, "utf8");
  const calls = text.match(/cron\.schedule\s*\(/g) ?? [];
  const told = [...text.matchAll(/cron\.schedule\s*\(\s*'([^']+)',\s*'([^']+)'/g)];
  return calls.map((_, index) => ({ file, name: told[index]?.[1] ?? "a job", when: told[index]?.[2] ?? "" }));
});

describe("the database's jobs", () => {
  test.each(jobs)("$name of $file runs at “$when”, which pg_cron takes", ({ when }) => {
    expect(when).toMatch(schedule);
  });

  test("there are some", () => {
    expect(jobs.length).toBeGreaterThan(5);
  });

  test.each(["1 seconds", "59 seconds", "* * * * *", "*/10 0-4 1,15 * *"])("%s is a schedule", (when) => {
    expect(when).toMatch(schedule);
  });

  test.each(["0 seconds", "60 seconds", "5 minutes", "* * * *", ""])("“%s” is none", (when) => {
    expect(when).not.toMatch(schedule);
  });
});
