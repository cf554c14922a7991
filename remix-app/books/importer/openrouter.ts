import { z } from "zod";
import { type CostLine, UnreadableCostFile } from "../../studio/costs/files/cost-file.ts";
import { isObject, type JsonObject, readExactAmount, textOf } from "../../studio/costs/files/json-values.ts";
import { dayOf, readMoment } from "../../studio/costs/files/read-day.ts";
import type { CostProvider, ReportedDay } from "./cost-provider.ts";

const frame = z.object({ data: z.array(z.custom<JsonObject>(isObject)) });

const dayMs = 86_400_000;
/** OpenRouter answers for 30 completed days. The oldest one may end while an import reads it. */
const answeredDays = 29;

/**
 * OpenRouter's activity by model, in one page. It reports the days with activity of the last 30 completed UTC days, so
 * any other of these days has no costs. `usage` is what OpenRouter charges in USD. `byok_usage_inference` is charged by
 * another provider and is left out.
 * https://openrouter.ai/docs/api/api-reference/analytics/get-user-activity-grouped-by-endpoint
 */
export const openRouter: CostProvider = {
  id: "openrouter",
  name: "OpenRouter",
  settings: { key: "OPENROUTER_ADMIN_KEY", url: "OPENROUTER_BASE_URL" },
  keyAdvice: "a management key (formerly: provisioning key) of the organization",
  firstDays: answeredDays,
  maxDays: answeredDays,
  request: ({ baseUrl, key }) => ({
    url: new URL(`${baseUrl}/activity`),
    headers: { authorization: `Bearer ${key}` },
  }),
  readPage(page, { today }) {
    const lines = frame.parse(page).data.map(readActivity);
    const days: ReportedDay[] = [];
    for (let ago = answeredDays; ago > 0; ago--) {
      const day = dayOf(Date.parse(today) - ago * dayMs);
      days.push({ day, lines: lines.filter((line) => line.day === day) });
    }
    return { days, hasMore: false, next: null };
  },
};

function readActivity(item: JsonObject, n: number): CostLine {
  const where = `data[${n}]`;
  const moment = readMoment(textOf(item.date) ?? "");
  if (!moment) throw new UnreadableCostFile(`${where}.date isn’t a day such as 2026-10-31.`);
  return {
    provider: "openrouter",
    timeZone: "UTC",
    account: null,
    day: moment.day,
    service: textOf(item.model),
    currency: "USD",
    amount: readExactAmount(item.usage, `${where}.usage`),
  };
}
