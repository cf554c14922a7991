import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { deploymentMetricNames } from "../remix-app/monitoring/deployment-metrics.ts";
import { createWebMetrics } from "../remix-app/monitoring/web-metrics.ts";
import { createGatewayMetrics } from "../supabase/functions/_gateway/telemetry/gateway-metrics.ts";
import { formatProcesses } from "../supabase/functions/_shared/metrics-text.ts";

const read = (name: string) => readFileSync(new URL(name, import.meta.url), "utf8");
const rules = read("alerts.yml");
const dashboard = read("dashboard.json");
const operating = read("../docs/operating.md");

/** Returns the names of the series that a page of metrics declares. */
function declaredIn(text: string): string[] {
  return [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].flatMap(([, name = "", type]) => {
    if (type === "counter") return [`${name}_total`];
    return type === "histogram" ? ["_bucket", "_sum", "_count"].map((suffix) => name + suffix) : [name];
  });
}

async function listExported(): Promise<Set<string>> {
  const web = await formatProcesses(new Map([["0", await createWebMetrics().read()]]));
  const gateway = await createGatewayMetrics().respond();
  return new Set([...declaredIn(await web.text()), ...declaredIn(await gateway.text()), ...deploymentMetricNames]);
}

/** Returns the names of metrics in PromQL. Those without one of our prefixes are Prometheus's own. */
const namesIn = (text: string) => text.match(/\b(?:gatehouse|process|nodejs)_\w+/g) ?? [];
const expressionsOf = (json: string) =>
  [...json.matchAll(/"expr": "((?:[^"\\]|\\.)*)"/g)].map(([, text = ""]) => JSON.parse(`"${text}"`) as string);
const alerts = [
  ...rules.matchAll(/- alert: (\w+)\n\s+expr: (\|\n(?:\s{10,}.*\n)+|.*\n)[\s\S]*?runbook_url: (\S+)/g),
].map(([, name = "", expression = "", runbook = ""]) => ({ name, expression, runbook }));

test("each metric in a rule or on the dashboard is exported", async () => {
  const exported = await listExported();
  const used = [
    ...alerts.flatMap(({ expression }) => namesIn(expression)),
    ...expressionsOf(dashboard).flatMap(namesIn),
  ];
  expect(used.length).toBeGreaterThan(40);
  expect(used.filter((name) => !exported.has(name))).toEqual([]);
});

test("each metric of ours is on the dashboard and in docs/operating.md", async () => {
  const shown = new Set(expressionsOf(dashboard).flatMap(namesIn));
  const base = (name: string) => name.replace(/_(?:bucket|sum|count)$/, "");
  const ours = new Set([...(await listExported())].filter((name) => name.startsWith("gatehouse_")).map(base));
  const isShown = (name: string) => shown.has(name) || shown.has(`${name}_bucket`);
  expect([...ours].filter((name) => !isShown(name))).toEqual([]);
  expect([...ours].filter((name) => !operating.includes(`\`${name}\``))).toEqual([]);
});

test("there are ten alerts, and each leads to its paragraph in docs/operating.md", () => {
  expect(alerts).toHaveLength(10);
  expect(rules.match(/- alert:/g)).toHaveLength(10);
  for (const { name, runbook } of alerts) {
    expect(runbook).toBe(`docs/operating.md#${name.toLowerCase()}`);
    expect(operating, name).toMatch(new RegExp(`^#### ${name}\\n\\n\\S.{80,}`, "m"));
  }
});

test("each alert has a test with series that fire it", () => {
  const tests = read("alerts.test.yml");
  for (const { name } of alerts) expect(tests, name).toMatch(new RegExp(`alertname: ${name}\\n\\s+exp_alerts:\\n`));
});

const hasPromtool = spawnSync("promtool", ["--version"]).status === 0;
const promtool = (...args: string[]) => execFileSync("promtool", args, { cwd: import.meta.dirname, encoding: "utf8" });

if (hasPromtool) {
  test("promtool accepts the rules and the example of Prometheus's settings", () => {
    expect(promtool("check", "rules", "alerts.yml")).toContain("10 rules found");
    expect(promtool("check", "config", "--syntax-only", "prometheus.yml")).toContain("SUCCESS");
  });

  test("each alert fires on the recorded series of its fault, and on no series of normal traffic", () => {
    expect(promtool("test", "rules", "alerts.test.yml")).toContain("SUCCESS");
  });
} else console.warn("promtool is not installed, so the alert rules were not tested (Debian: prometheus).");
