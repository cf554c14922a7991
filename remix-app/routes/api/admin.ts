import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { answerAdminCall } from "../../admin-api/answer-call.ts";
import { adminMethods } from "../../admin-api/table.ts";
import type { RouteHandle } from "../../http/route-table.ts";

export const handle: RouteHandle = { methods: adminMethods };

/** `GET` of every path below `/api/v1/admin`. */
export function loader(args: LoaderFunctionArgs) {
  return answerAdminCall(args);
}

/** `POST`, `PATCH` and `DELETE` of the same paths. */
export function action(args: ActionFunctionArgs) {
  return answerAdminCall(args);
}
