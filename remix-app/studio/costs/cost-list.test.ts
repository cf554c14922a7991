import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { CostList } from "./cost-list.tsx";
import type { CostRecord } from "./provider-import-schema.ts";

const at = "2026-01-20T00:00:00Z";
const record: CostRecord = {
  id: "00000000-0000-4000-8000-000000000000",
  appId: "00000000-0000-4000-8000-000000000001",
  appName: "ספר חשבונות",
  provider: "openai",
  accountId: "proj_1",
  externalRunId: "proj_1:2026-01-20",
  granularity: "account_day",
  service: null,
  amountUsd: "0.3",
  occurredAt: at,
  observedAt: at,
  recordedAt: at,
  revision: 1,
  counted: true,
  replacedBy: null,
  replaces: null,
};

test("an app whose name is written from right to left turns no date beside it around", () => {
  const list = createElement(CostList, {
    records: [record],
    filtered: false,
    now: at,
    gatewayUrl: "",
    workspaceId: "",
  });
  expect(renderToStaticMarkup(list)).toContain("<bdi>openai</bdi> · <bdi>ספר חשבונות</bdi> · <time");
});
