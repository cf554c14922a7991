import { expect, test } from "vitest";
import { compareContents } from "./differences.ts";

const file = "20260801000000_first.sql";
const checkout = {
  migrations: [{ version: "20260801000000", name: "first", file: `supabase/migrations/${file}` }],
  changes: { "20260801000000": { "function private.f()": "aa", "view public.v": "bb" } },
  manifest: {
    merged: ["20260801000001"],
    releases: [{ version: "0.1.0", commit: null, postgres: 17, migrations: { [file]: "0".repeat(64) } }],
  },
};
const found = (postgres: number, objects: Record<string, string>) =>
  compareContents({ postgres, migrations: ["20260801000000"], objects }, checkout).map(({ level, says }) => [
    level,
    says,
  ]);
const changed = { "function private.f()": "changed", "view public.v": "changed" };

test.each([150_000, 159_999, 169_999])("refuses Postgres with server_version_num %d as too old", (postgres) => {
  expect(found(postgres, changed)).toEqual([["fail", `Postgres ${Math.floor(postgres / 10_000)} is below 17`]]);
});

test.each([170_000, 179_999])(
  "on Postgres 17 (server_version_num %d), compares the definitions of database objects",
  (postgres) => {
    expect(found(postgres, changed)).toEqual([
      ["fail", "changed by hand: function private.f()"],
      ["fail", "changed by hand: view public.v"],
    ]);
  },
);

test("compares only the names of objects on a newer major version of Postgres, which can print definitions differently", () => {
  expect(found(180_000, { "view public.v": "changed", "table public.t": "cc" })).toEqual([
    ["warn", "Postgres 18 is above 17"],
    ["fail", "dropped: function private.f()"],
    ["fail", "extra: table public.t"],
  ]);
});

const second = { version: "20260802000000", name: "second", file: "supabase/migrations/20260802000000_second.sql" };
const twoMigrations = {
  ...checkout,
  migrations: [...checkout.migrations, second],
  changes: { ...checkout.changes, "20260802000000": { "table ai.t": "cc", "grants to anon on table ai.t": "select" } },
};

test("reports a migration missing from the database's history, without reporting its objects as extra", () => {
  const objects = {
    ...checkout.changes["20260801000000"],
    ...twoMigrations.changes["20260802000000"],
    "table ai.own": "dd",
    "grants to anon on view public.v": "select",
  };
  const says = compareContents({ postgres: 170_000, migrations: ["20260801000000"], objects }, twoMigrations).map(
    (difference) => [difference.says, difference.advice],
  );
  const push = "Apply the migrations: npx supabase db push --linked";
  expect(says).toEqual([
    ["older release: the database is of 0.1.0", push],
    ["missing: migration 20260802000000_second.sql", push],
    ["extra: table ai.own", "Remove it, or move it to a schema of your own."],
    ["extra: grant select on view public.v to anon", "Revoke it."],
  ]);
});

test("reports merged migrations before anything else, also after the release that merged them", () => {
  const contents = {
    postgres: 170_000,
    migrations: ["20260801000001"],
    objects: { ...checkout.changes["20260801000000"], "view public.v": "changed" },
  };
  expect(compareContents(contents, checkout)).toEqual([
    {
      level: "fail",
      says: "unreleased: migrations 20260801000001 were merged into other files after they had been applied",
      advice: 'If nothing else differs, correct its history: "Unreleased migrations" in docs/upgrading.md.',
    },
    { level: "fail", says: "changed by hand: view public.v", advice: "Restore its definition." },
  ]);
});

test("does not take an operator's own migration for a merged one", () => {
  const own = {
    postgres: 170_000,
    migrations: ["20260801000000", "20260801000002"],
    objects: checkout.changes["20260801000000"],
  };
  expect(compareContents(own, twoMigrations).map(({ says }) => says)).toEqual([
    "older release: the database is of 0.1.0",
    "missing: migration 20260802000000_second.sql",
    "extra: migration 20260801000002 is recorded and has no file here",
  ]);
});
