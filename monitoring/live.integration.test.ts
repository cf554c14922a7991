import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { freePort } from "@gatehousehq/local-stack/ports";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { parse } from "yaml";
import type { WebProcess } from "../remix-app/testing/web-process.ts";
import { type IdentityBackend, startIdentityBackend } from "../scripts/test/identity-backend.ts";

const hasPrometheus = spawnSync("prometheus", ["--version"]).status === 0;
if (!hasPrometheus) console.warn("prometheus is not installed, so no alert was seen firing (Debian: prometheus).");

const token = "the-token-of-the-metrics-of-these-tests";
const patience = { timeout: 60_000, interval: 250 };
vi.setConfig({ testTimeout: 90_000, hookTimeout: 90_000 });

let backend: IdentityBackend;
let web: WebProcess;
let prometheus: ChildProcess;
let api: string;
let cookie: string;
const folder = mkdtempSync(path.join(tmpdir(), "gatehouse-prometheus-"));

/** Writes Prometheus's settings: the product's rules with seconds in place of minutes. */
async function configure(): Promise<string> {
  const rules = readFileSync(new URL("alerts.yml", import.meta.url), "utf8");
  writeFileSync(path.join(folder, "alerts.yml"), rules.replace(/\[\d+m\]/g, "[5s]").replace(/for: \d+m/g, "for: 1s"));
  const target = (port: string | number) => [{ targets: [`127.0.0.1:${port}`] }];
  const job = { authorization: { credentials: token } };
  const port = new URL(web.base).port;
  const file = path.join(folder, "prometheus.yml");
  const settings = {
    global: { scrape_interval: "500ms", scrape_timeout: "500ms", evaluation_interval: "500ms" },
    rule_files: ["alerts.yml"],
    scrape_configs: [
      { ...job, job_name: "gatehouse-web", static_configs: target(port) },
      { ...job, job_name: "gatehouse-gateway", static_configs: target(await freePort()) },
      {
        ...job,
        job_name: "gatehouse-deployment",
        metrics_path: "/metrics/deployment",
        static_configs: target(port),
      },
    ],
  };
  // JSON is YAML.
  writeFileSync(file, JSON.stringify(settings));
  return file;
}

const listFiring = async (): Promise<string[]> => {
  const response = await fetch(`${api}/alerts`);
  const { data } = (await response.json()) as { data: { alerts: { state: string; labels: { alertname: string } }[] } };
  return data.alerts.filter(({ state }) => state === "firing").map(({ labels }) => labels.alertname);
};
/** The alerts of a database that does not answer. Others may fire for what other tests do on the stack. */
const ofOutage = ["GatehouseDatabaseUnavailable", "GatehouseWebFailing"];
const read = () => web.fetch("/api/v1/auth/session", { headers: { cookie } });

beforeAll(async () => {
  backend = await startIdentityBackend();
  web = await backend.startWeb({ env: { METRICS_TOKEN: token } });
  cookie = await backend.cookieOf(await backend.session());
});
afterAll(async () => {
  await web.stop();
  await backend.close();
  rmSync(folder, { recursive: true, force: true });
});

test("the pages that the example of Prometheus's settings reads exist", async () => {
  const example = parse(readFileSync(new URL("prometheus.yml", import.meta.url), "utf8"));
  const jobs = example.scrape_configs as { job_name: string; metrics_path?: string }[];
  for (const { job_name: job, metrics_path: page = "/metrics" } of jobs.filter(
    ({ job_name: job }) => job !== "gatehouse-gateway",
  )) {
    const response = await web.fetch(page, { headers: { authorization: `Bearer ${token}` } });
    expect([job, response.status, response.headers.get("content-type")]).toEqual([
      job,
      200,
      expect.stringContaining("openmetrics-text"),
    ]);
  }
});

if (hasPrometheus)
  describe("Prometheus", () => {
    beforeAll(async () => {
      const port = await freePort();
      api = `http://127.0.0.1:${port}/api/v1`;
      prometheus = spawn(
        "prometheus",
        [
          `--config.file=${await configure()}`,
          `--storage.tsdb.path=${path.join(folder, "data")}`,
          `--web.listen-address=127.0.0.1:${port}`,
        ],
        { stdio: "ignore" },
      );
      await vi.waitUntil(() => fetch(`${api}/alerts`).catch(() => null), patience);
    });
    afterAll(async () => {
      prometheus.kill();
      if (prometheus.exitCode === null) await once(prometheus, "exit");
    });

    test("reads every figure of the web server and of the deployment", async () => {
      await vi.waitUntil(async () => {
        await read();
        const response = await fetch(`${api}/label/__name__/values`);
        const { data } = (await response.json()) as { data: string[] };
        const names = [
          "gatehouse_web_requests_total",
          "gatehouse_usage_age_seconds",
          "gatehouse_event_loop_delay_seconds_total",
        ];
        return names.every((name) => data.includes(name));
      }, patience);
    });

    test("fires GatehouseDown for a gateway that does not listen, and neither of the others while the database answers", async () => {
      await vi.waitUntil(async () => (await listFiring()).includes("GatehouseDown"), patience);
      expect((await listFiring()).filter((name) => ofOutage.includes(name))).toEqual([]);
    });

    test("fires GatehouseDatabaseUnavailable and GatehouseWebFailing while the database does not answer", async () => {
      backend.rows = "down";
      backend.state = "down";
      await vi.waitUntil(async () => {
        expect((await read()).status).toBe(503);
        const firing = await listFiring();
        return ofOutage.every((name) => firing.includes(name));
      }, patience);
      backend.reset();
      await vi.waitUntil(async () => {
        await read();
        return !(await listFiring()).some((name) => ofOutage.includes(name));
      }, patience);
    });
  });
