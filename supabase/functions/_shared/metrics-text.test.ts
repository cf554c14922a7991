import { expect, test } from "vitest";
import { createProcessRegistry } from "./metrics-text.ts";

test("counts the time for which the process could not react", async () => {
  const registry = createProcessRegistry();
  const read = async () => {
    const metric = await registry.getSingleMetric("gatehouse_event_loop_delay_seconds_total")?.get();
    return metric?.values[0]?.value ?? 0;
  };
  const turn = () => new Promise((resolve) => setTimeout(resolve, 150));
  await turn();
  const before = await read();
  const end = performance.now() + 400;
  while (performance.now() < end);
  await turn();
  // The timer is due every 100 ms, so a turn of 400 ms makes it at least 300 ms late.
  expect((await read()) - before).toBeGreaterThanOrEqual(0.29);
});
