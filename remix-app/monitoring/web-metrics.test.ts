import { expect, test } from "vitest";
import { formatProcesses } from "#shared/metrics-text.ts";
import { createWebMetrics } from "./web-metrics.ts";

async function read(metrics: ReturnType<typeof createWebMetrics>): Promise<string[]> {
  const response = await formatProcesses(new Map([["0", await metrics.read()]]));
  expect(response.headers.get("content-type")).toMatch(/^application\/openmetrics-text; version=1\.0\.0/);
  return (await response.text()).split("\n").filter((line) => /^gatehouse_web_(?!.*_bucket)/.test(line));
}

test("counts requests by kind, attempts by result and scheduled tasks, labelled with the process", async () => {
  const metrics = createWebMetrics();
  const [end] = [metrics.beginRequest(), metrics.beginRequest()];
  end({ kind: "page", status: 503, durationMs: 250 });
  metrics.attempt({ action: "password", result: "limited" });
  metrics.task({ task: "sweep-runs", hasFailed: true });
  expect(await read(metrics)).toEqual([
    'gatehouse_web_requests_total{kind="page",status="503",process="0"} 1',
    'gatehouse_web_request_duration_seconds_sum{kind="page",process="0"} 0.25',
    'gatehouse_web_request_duration_seconds_count{kind="page",process="0"} 1',
    'gatehouse_web_open_requests{process="0"} 1',
    'gatehouse_web_attempts_total{action="password",result="limited",process="0"} 1',
    'gatehouse_web_tasks_total{task="sweep-runs",result="failed",process="0"} 1',
  ]);
});

test("shows the processes of a server side by side, and reads of one do not change the other", async () => {
  const [first, second] = [createWebMetrics(), createWebMetrics()];
  first.task({ task: "sweep-runs", hasFailed: false });
  second.task({ task: "sweep-runs", hasFailed: false });
  second.task({ task: "sweep-runs", hasFailed: false });
  const processes = new Map([
    ["0", await first.read()],
    ["1", await second.read()],
  ]);
  const text = await (await formatProcesses(processes)).text();
  expect(text.match(/^gatehouse_web_tasks_total.*$/gm)).toEqual([
    'gatehouse_web_tasks_total{task="sweep-runs",result="succeeded",process="0"} 1',
    'gatehouse_web_tasks_total{task="sweep-runs",result="succeeded",process="1"} 2',
  ]);
  expect(text.match(/^# TYPE gatehouse_web_tasks counter$/gm)).toHaveLength(1);
});
