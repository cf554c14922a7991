import type { LoaderFunctionArgs } from "@remix-run/node";
import { Outlet } from "@remix-run/react";
import { readCreditNotice } from "../../workspaces/credit-notice.ts";
import { requireWorkspace } from "../../workspaces/permission.ts";

/** Loads the notice that AI studio pages show if credits are low (StudioPage). */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { workspace, member } = await requireWorkspace(context, { request, params });
  return { creditNotice: await readCreditNotice(context, { workspace, member }) };
}

export default function StudioFrame() {
  return <Outlet />;
}
