import { globSync, readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";

const files = readdirSync(new URL("../migrations/", import.meta.url)).sort();

/** The declaration of each function in the schema files, up to its body, with the preceding line. */
const functions = globSync("supabase/schemas/**/*.sql").flatMap((file) =>
  [
    ...readFileSync(file, "utf8").matchAll(
      /(?<before>.*)\ncreate or replace function (?<name>[\w.]+)(?<head>[\s\S]*?)\nas \$/g,
    ),
  ].map(({ groups }) => ({ name: groups?.name ?? "", head: groups?.head ?? "", before: groups?.before ?? "" })),
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
      ({ head }) => !/\n\s+(immutable|stable|volatile)\b/.test(head) || !/\n\s+security (invoker|definer)\b/.test(head),
    );
    expect(silent.map(({ name }) => name)).toEqual([]);
  });

  test("schema files explain why a function is a security definer", () => {
    const unexplained = functions.filter(({ head, before }) => /security definer/.test(head) && !/^-- /.test(before));
    expect(unexplained.map(({ name }) => name)).toEqual([]);
  });

  test("schema files define every function that supabase/before-0.1.0.sql renames or creates", () => {
    const takeover = readFileSync("supabase/before-0.1.0.sql", "utf8");
    const renamed = [...takeover.matchAll(/^alter function (\w+)\.\w+\(.*\) rename to (\w+);$/gm)];
    const created = [...takeover.matchAll(/^create function (\w+)\.(\w+)\(/gm)];
    expect(renamed.length).toBeGreaterThan(0);
    const defined = new Set(functions.map(({ name }) => name));
    const names = [...renamed, ...created].map(([, schema, name]) => `${schema}.${name}`);
    expect(names.filter((name) => !defined.has(name))).toEqual([]);
  });

  test("only one schema file writes to the auth schema", () => {
    const writes = /(?:insert\s+into|update|delete\s+from)\s+auth\.|\btrigger [\s\S]{0,200}? on auth\./;
    const found = globSync("supabase/schemas/**/*.sql").filter((file) => writes.test(readFileSync(file, "utf8")));
    expect(found).toEqual(["supabase/schemas/auth-schema.sql"]);
  });
});
