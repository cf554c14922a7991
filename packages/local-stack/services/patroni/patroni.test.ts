import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { haproxySettings, patroniSettings } from "./configuration.ts";
import { findPatroniPrograms } from "./programs.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), "patroni-"));
});
afterEach(() => {
  rmSync(folder, { recursive: true });
});

const write = (...names: string[]) => names.forEach((name) => void writeFileSync(path.join(folder, name), ""));

test("names each missing program and where it comes from", () => {
  write("etcd", "haproxy", "postgres", "initdb");
  const settings = { PATH: folder, NODE_ENV: "test" } as const;
  expect(findPatroniPrograms(settings)).toEqual({
    missing: [
      expect.stringMatching(/^patroni .* package patroni\.$/),
      expect.stringMatching(/^POSTGRES_BIN is not set\. .* postgresql-17/),
    ],
  });
  write("patroni");
  expect(findPatroniPrograms({ ...settings, POSTGRES_BIN: folder })).toEqual({
    missing: [expect.stringContaining("lacks pg_basebackup, pg_controldata, pg_isready, pg_rewind.")],
  });
  write("pg_basebackup", "pg_controldata", "pg_isready", "pg_rewind");
  expect(findPatroniPrograms({ ...settings, POSTGRES_BIN: folder })).toEqual({
    programs: {
      patroni: path.join(folder, "patroni"),
      etcd: path.join(folder, "etcd"),
      haproxy: path.join(folder, "haproxy"),
      postgresFolder: folder,
    },
  });
});

const nodes = [
  { name: "one", dataDir: "/data/one", postgresPort: 5001, restPort: 8001 },
  { name: "two", dataDir: "/data/two", postgresPort: 5002, restPort: 8002 },
];

test("a node loses no commit that was answered, and no server of the nodes can be reached from elsewhere", () => {
  const [node] = nodes;
  if (!node) throw new Error("no node");
  const login = { username: "admin", password: 'a "quoted": one' };
  const text = patroniSettings(node, {
    ...{ home: "/data", etcdPort: 2379, postgresFolder: "/bin" },
    ...{ superuser: login, replication: login },
  });
  const settings = JSON.parse(text);
  const { ttl, loop_wait, retry_timeout } = settings.bootstrap.dcs;
  expect(settings.bootstrap.dcs.synchronous_mode).toBe(true);
  // Patroni's rule, or a primary that reaches etcd too late would keep its role (patroni.readthedocs.io, "ttl").
  expect(loop_wait + 2 * retry_timeout).toBeLessThanOrEqual(ttl);
  expect(settings.postgresql.authentication.superuser).toEqual(login);
  expect(text.match(/\d+\.\d+\.\d+\.\d+(?=[:/])/g)?.every((address) => address === "127.0.0.1")).toBe(true);
});

test("the proxy leads to the primary only, and closes the connections to a node that no longer is", () => {
  const text = haproxySettings(nodes, 5000);
  expect(text).toMatch(/^ {2}bind 127\.0\.0\.1:5000$/m);
  expect(text).toMatch(/^ {2}option httpchk OPTIONS \/primary$/m);
  expect(text).toMatch(/^ {2}default-server .* on-marked-down shutdown-sessions$/m);
  expect(text).toMatch(/^ {2}server one 127\.0\.0\.1:5001 check port 8001$/m);
  expect(text).toMatch(/^ {2}server two 127\.0\.0\.1:5002 check port 8002$/m);
});
