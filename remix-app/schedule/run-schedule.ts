import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import type { Operation } from "#shared/operation.ts";
import { isSameSecret } from "#shared/same-secret.ts";
import { type ProblemCode, problem } from "../http/problem.ts";

/** Shorter than the minute after which a scheduler usually calls again. */
const maxRunMs = 50_000;

const scheduleAnswer = z.object({ completed: z.array(z.string()) });

/** @throws Response 404 without SCHEDULE_SECRET, 401 if the request does not have it as its Bearer token */
export function requireScheduler(request: Request, { env, requestId }: AppLoadContext): void {
  if (env.SCHEDULE_SECRET === undefined) throw problem("NOT_FOUND", { requestId });
  const [, given = null] = /^Bearer +(\S+)$/i.exec(request.headers.get("authorization") ?? "") ?? [];
  if (isSameSecret(given, env.SCHEDULE_SECRET)) return;
  throw problem("UNAUTHENTICATED", {
    requestId,
    detail: "Send SCHEDULE_SECRET as the Bearer token.",
    headers: { "WWW-Authenticate": "Bearer" },
  });
}

/**
 * Runs all scheduled tasks once. Concurrent calls, on any number of servers, do nothing twice: each task claims its work
 * in the database.
 * @throws Response 503 UNAVAILABLE if a task failed
 */
export async function runSchedule({ schedule, requestId }: AppLoadContext): Promise<z.output<typeof scheduleAnswer>> {
  const { completed, failed } = await schedule.runOnce(AbortSignal.timeout(maxRunMs));
  if (failed.length === 0) return { completed };
  const detail = `These tasks failed: ${failed.join(", ")}. The server's log has the errors. The next call tries again.`;
  throw problem("UNAVAILABLE", { requestId, detail });
}

/** The API operation of a scheduler. */
export const scheduleOperations: readonly Operation<ProblemCode>[] = [
  {
    id: "runSchedule",
    method: "POST",
    path: "/api/v1/schedule",
    tag: "Schedule",
    summary: "Run the scheduled tasks",
    description:
      "For a scheduler such as pg_cron, if no web server runs all the time. Runs each task once and answers when all have ended, after at most about a minute. Concurrent and repeated calls do nothing twice. The address is off (404) without SCHEDULE_SECRET.",
    credentials: ["scheduler"],
    answers: [{ status: 200, description: "The tasks that ran.", schema: scheduleAnswer }],
    problems: ["NOT_FOUND", "UNAVAILABLE"],
  },
];
