import { globSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";

const folder = "scripts/local-stack/";
const services = /^scripts\/local-stack\/(services|runner)\//;
/** Modules that services and the runner may use in addition to their own. */
const foundation = /^(scripts\/local-stack\/(errors|ports|database)|supabase\/functions\/_shared\/[\w-]+)\.ts$/;

/** Modules in the local stack's folder that scripts outside the folder may import. */
const openToScripts = [
  "contents/auth-triggers.ts",
  "contents/checkout.ts",
  "contents/differences.ts",
  "contents/read-contents.ts",
  "contents/releases.ts",
  "database.ts",
  "description.ts",
  "errors.ts",
  "identity-environment.ts",
  "migrations.ts",
  "ports.ts",
  "secrets.ts",
  "services/functions/deno-arguments.ts",
  "services/gateway/user-tokens.ts",
  "services/identity/core/mail-template.ts",
  "services/pgbouncer/pgbouncer.ts",
  "services/postgres/cluster.ts",
  "services/postgres/placement.ts",
  "services/postgres/temporary-server.ts",
  "services/turnstile/app.ts",
  "snapshot.ts",
  "statements.ts",
];
/** Modules that code outside the folder may import only in tests. */
const openToTests = [
  "addresses.ts",
  "contract/support/authenticator.ts",
  "contract/support/certificate.ts",
  "environment.ts",
  "hash-files.ts",
  "hosted.ts",
  "options.ts",
  "services/data-api/data-api.ts",
  "services/identity/supabase-auth-routes.ts",
  "services/oidc/stand-ins.ts",
  "services/provider/behaviours.ts",
  "services/provider/fixtures.ts",
  "supabase-status.ts",
];

const isTest = (file: string) =>
  /\.(test|spec)\.tsx?$|^(e2e|supabase\/tests|scripts\/test|remix-app\/testing)\//.test(file);
const isInside = (file: string) => file.startsWith(folder);

const imports = globSync("{e2e,remix-app,scripts,supabase}/**/*.{ts,tsx}").flatMap((file) =>
  [...readFileSync(file, "utf8").matchAll(/(?:from|import) ?\(?"((?:\.|#shared)[^"]+)"/g)].map(([, name = ""]) => ({
    from: file,
    to: path.join(
      ...(name.startsWith("#shared") ? ["supabase/functions/_shared", name.slice(8)] : [path.dirname(file), name]),
    ),
  })),
);
const crossing = imports.filter(({ from, to }) => isInside(to) && !isInside(from));
const show = (found: typeof imports) => found.map(({ from, to }) => `${from} imports ${to}`);

describe("imports across the border of the local stack", () => {
  test("the local stack's services and runner import only each other, errors, ports, the database and #shared", () => {
    const wrong = imports.filter(
      ({ from, to }) => services.test(from) && !isTest(from) && !services.test(to) && !foundation.test(to),
    );
    expect(show(wrong)).toEqual([]);
  });

  test("only scripts and tests import from the local stack, and they import only modules listed as open to them", () => {
    const wrong = crossing.filter(({ from, to }) => {
      const open = isTest(from) ? [...openToScripts, ...openToTests] : from.startsWith("scripts/") ? openToScripts : [];
      return !open.includes(to.slice(folder.length));
    });
    expect(show(wrong)).toEqual([]);
  });

  test("every local-stack module that is listed as open to outside code is imported from outside", () => {
    const used = new Set(crossing.filter(({ from }) => !isTest(from)).map(({ to }) => to.slice(folder.length)));
    const usedByTests = new Set(crossing.map(({ to }) => to.slice(folder.length)));
    expect(openToScripts.filter((name) => !used.has(name))).toEqual([]);
    expect(openToTests.filter((name) => !usedByTests.has(name))).toEqual([]);
  });
});
