import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { configurePgBouncer } from "./pgbouncer.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), "pgbouncer-"));
});
afterEach(() => {
  rmSync(folder, { recursive: true });
});

test("PgBouncer uses transaction pooling and reads passwords from a separate, private file", () => {
  const { args } = configurePgBouncer({
    port: 6543,
    postgresPort: 5432,
    passwords: { gateway: 'a "quoted" one' },
    placement: { initdb: "", postgres: "", dataDir: path.join(folder, "postgres") },
  });
  const settings = path.join(folder, "pgbouncer.ini");
  const users = path.join(folder, "pgbouncer-users.txt");
  expect(args).toContain(settings);
  const text = readFileSync(settings, "utf8");
  expect(text).toMatch(/^pool_mode = transaction$/m);
  expect(text).toMatch(/^\* = host=127\.0\.0\.1 port=5432$/m);
  expect(text).toMatch(/^listen_port = 6543$/m);
  expect(text).not.toContain("quoted");
  expect(readFileSync(users, "utf8")).toBe('"gateway" "a ""quoted"" one"\n');
  for (const file of [settings, users]) expect(statSync(file).mode & 0o777).toBe(0o600);
});
