import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";

const folder = new URL("../migrations/", import.meta.url);
const files = readdirSync(folder).sort();
const sources = files.map((file) => ({ file, sql: readFileSync(new URL(file, folder), "utf8") }));

/** Each function's statement up to its body, with the line before it. */
const functions = sources.flatMap(({ file, sql }) =>
  [...sql.matchAll(/^(?<before>.*)\ncreate (?:or replace )?function (?<name>[\w.]+)(?<head>[\s\S]*?)\nas \$/gm)].map(
    ({ groups }) => ({ file, name: groups?.name ?? "", head: groups?.head ?? "", before: groups?.before ?? "" }),
  ),
);

describe("migrations", () => {
  test("are named by time and subject, each at a time of its own", () => {
    const times = files.map((file) => /^(\d{14})_[a-z0-9_]+\.sql$/.exec(file)?.[1]);
    expect(times).not.toContain(undefined);
    expect(new Set(times).size).toBe(files.length);
  });

  test("include the three that operators are told to apply", () => {
    expect(files).toEqual(
      expect.arrayContaining([
        "20260906100000_external_provider_costs.sql",
        "20260907110000_external_provider_invoices.sql",
        "20260923130000_required_account_mfa.sql",
      ]),
    );
  });

  test("hold all the functions that they create", () => {
    const created = sources.flatMap(({ sql }) => [...sql.matchAll(/^create (?:or replace )?function /gm)]).length;
    expect(functions.length).toBe(created);
  });

  test.for(functions)("$file: $name states its volatility and whose rights it has", ({ head }) => {
    expect(head).toMatch(/\n\s+(immutable|stable|volatile)\b/);
    expect(head).toMatch(/\n\s+security (invoker|definer)\b/);
  });

  test.for(functions.filter(({ head }) => /security definer/.test(head)))(
    "$file: $name says why it is a definer",
    ({ before }) => {
      expect(before).toMatch(/^-- /);
    },
  );
});
