import { globSync, readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";

const files = readdirSync(new URL("../migrations/", import.meta.url)).sort();

/** The declaration of each function in the schema files, up to its body, with the comment directly above it. */
const functions = globSync("supabase/schemas/**/*.sql").flatMap((file) =>
  [
    ...readFileSync(file, "utf8").matchAll(
      /(?<comment>(?:^--.*\n)*)^create or replace function (?<name>[\w.]+)(?<head>[\s\S]*?)\nas \$/gm,
    ),
  ].map(({ groups }) => ({ name: groups?.name ?? "", head: groups?.head ?? "", comment: groups?.comment ?? "" })),
);

describe("migrations", () => {
  test("migrations are named by a unique UTC time and a subject", () => {
    const times = files.map((file) =>
      file.replace(/^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)_[a-z0-9_]+\.sql$/, "$1-$2-$3T$4:$5:$6.000Z"),
    );
    expect(times.filter((time) => Number.isNaN(Date.parse(time)) || new Date(time).toISOString() !== time)).toEqual([]);
    expect(new Set(times).size).toBe(files.length);
  });

  test("migration files include the three that the operator's guide names", () => {
    expect(files).toEqual(
      expect.arrayContaining([
        "20260906100000_external_provider_costs.sql",
        "20260907110000_external_provider_invoices.sql",
        "20260923130000_required_account_mfa.sql",
      ]),
    );
  });
});

// These tests read the source, because the catalogue does not show whether a property was stated or is the default, and
// does not contain the files' comments.
describe("schema files", () => {
  test("at least one function is found in the schema files, so that there is something to check", () => {
    expect(functions.length).toBeGreaterThan(0);
  });

  test("schema files state each function's volatility and security", () => {
    const silent = functions.filter(
      ({ head }) => !/\b(immutable|stable|volatile)\b/.test(head) || !/\bsecurity (invoker|definer)\b/.test(head),
    );
    expect(silent.map(({ name }) => name)).toEqual([]);
  });

  test("schema files describe each function in a comment directly above it", () => {
    expect(functions.filter(({ comment }) => comment === "").map(({ name }) => name)).toEqual([]);
  });

  test("schema files explain why a function is a security definer", () => {
    const unexplained = functions.filter(
      ({ head, comment }) => /security definer/.test(head) && !/^-- Definer/m.test(comment),
    );
    expect(unexplained.map(({ name }) => name)).toEqual([]);
  });

  test("one schema file has the triggers on tables of the auth schema, and another one the writes to them", () => {
    const writes = /(?:insert\s+into|update|delete\s+from)\s+auth\.|\btrigger [\s\S]{0,200}? on auth\./;
    const code = (file: string) => readFileSync(file, "utf8").replace(/--.*/g, "");
    const found = globSync("supabase/schemas/**/*.sql").filter((file) => writes.test(code(file)));
    expect(found.toSorted()).toEqual(["supabase/schemas/auth-schema.sql", "supabase/schemas/shared/auth-writes.sql"]);
  });
});
