import { type ActionFunctionArgs, redirect } from "@remix-run/server-runtime";
import { readForm } from "../../http/form.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { signOutHere } from "../../satellites/own/app-user.ts";

export const handle: RouteHandle = { side: "satellite" };

/** Signs out of this app; the person stays signed in on the platform. */
export async function action({ request, context }: ActionFunctionArgs) {
  await readForm(request, context);
  await signOutHere(context);
  throw redirect("/", 303);
}
