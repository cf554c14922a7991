import type { ActionFunctionArgs } from "@remix-run/node";
import type { RouteHandle } from "../../http/route-table.ts";
import { requireScheduler, runSchedule } from "../../schedule/run-schedule.ts";

export const handle: RouteHandle = { methods: ["POST"], authorization: "client" };

/** `POST /api/v1/schedule`: runs the scheduled tasks once. */
export async function action({ request, context }: ActionFunctionArgs) {
  requireScheduler(request, context);
  return Response.json(await runSchedule(context));
}
