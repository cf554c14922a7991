import type { LoaderFunctionArgs } from "@remix-run/node";
import { Outlet } from "@remix-run/react";
import { requireWorkspaceFrame } from "../../workspaces/permission.ts";

/** Loads the notice that AI studio pages show if credits are low (StudioPage). */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { creditNotice } = await requireWorkspaceFrame(context, { request, params });
  return { creditNotice };
}

export default function StudioFrame() {
  return <Outlet />;
}
