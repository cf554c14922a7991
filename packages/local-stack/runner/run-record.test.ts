import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { liveRun, takeDataDir } from "./run-record.ts";

let dataDir: string;
beforeEach(() => {
  dataDir = mkdtempSync(path.join(tmpdir(), "gatehouse-run-"));
});
afterEach(() => rmSync(dataDir, { recursive: true, force: true }));

const take = () => takeDataDir({ dataDir, onLeftover: () => {} });

test("a run locks its data directory until it removes its record", async () => {
  const record = await take();
  record.announce("http://localhost:3000");
  expect(liveRun(dataDir)).toEqual({ pid: process.pid, url: "http://localhost:3000" });
  await expect(take()).rejects.toThrow(`process ${process.pid}, http://localhost:3000`);
  record.remove();
  expect(liveRun(dataDir)).toBeUndefined();
});

test("reports a data directory that was deleted during the run", async () => {
  const record = await take();
  rmSync(dataDir, { recursive: true });
  expect(() => record.update([], undefined)).toThrow(`${dataDir} was deleted while the stack ran on it`);
  record.remove();
});

test.each([
  "",
  "{",
  "null",
  "7",
  "[]",
  '{"version":1}',
  `{"pid":${process.pid}}`,
  '{"pid":"x","startedAt":"y","services":[]}',
  '{"pid":1,"startedAt":"no such","services":[{"pid":1}]}',
])("ignores the invalid run record %j", async (content) => {
  const file = path.join(dataDir, "run.json");
  writeFileSync(file, content);
  expect(liveRun(dataDir)).toBeUndefined();
  await take();
  expect(JSON.parse(readFileSync(file, "utf8"))).toMatchObject({ pid: process.pid, services: [] });
});
