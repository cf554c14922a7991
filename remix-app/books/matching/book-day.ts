import { z } from "zod";
import { problem } from "../../http/problem.ts";
import { readBookMonth } from "../platform-month.ts";
import { matchingOf } from "./matching.ts";

type DayParams = { month?: string | undefined; provider?: string | undefined; day?: string | undefined };

/** Reads a provider's day from a path. @throws Response 404 unless the provider's days can be compared with calls */
export function readBookDay(params: DayParams, { requestId }: { requestId: string }) {
  const { month, provider } = readBookMonth(params, { requestId });
  const day = z.iso.date().safeParse(params.day);
  const matching = matchingOf(provider);
  if (day.success && day.data.startsWith(month) && matching) return { month, provider, day: day.data, matching };
  const detail = "Calls can’t be found for this provider and day.";
  throw problem("NOT_FOUND", { requestId, detail });
}
