import { useActionData, useLoaderData } from "@remix-run/react";
import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/server-runtime";
import { z } from "zod";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { approvalFormSchema, changeApprovalRequest, readApproval } from "../../studio/keys/approval.ts";
import { ApprovalCard } from "../../studio/keys/approval-card.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { buttonClass } from "../../ui/button.tsx";
import { Link } from "../../ui/link.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requirePermission } from "../../workspaces/permission.ts";

export const handle: RouteHandle = { hydrate: true };

export const meta = pageTitle<typeof loader>((data) => `Approval · ${data?.workspace.name ?? "Workspace"}`);

const permission = "manage_ai_keys";

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { workspace, member } = await requirePermission(context, { request, params, permission });
  return { workspace, approval: await readApproval(context, member), now: new Date().toISOString() };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  const { user, workspace, member } = await requirePermission(context, { request, params, permission });
  const form = await readForm(request, context);
  const read = approvalFormSchema.safeParse(Object.fromEntries(form));
  if (!read.success) {
    const error = z.flattenError(read.error).fieldErrors as { note?: string[] };
    if (!error.note?.[0]) throw problem("INVALID_REQUEST", { requestId: context.requestId });
    return data({ note: String(form.get("note")), error: error.note[0] }, { status: 400 });
  }
  await changeApprovalRequest(context, {
    form: read.data,
    member,
    requester: user.email ?? user.displayName,
    workspaceName: workspace.name,
  });
  throw redirect(`/workspaces/${workspace.id}/ai/keys`, 303);
}

export default function KeyApprovalPage() {
  const { workspace, approval, now } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>();
  return (
    <StudioPage
      workspace={workspace}
      title="API keys"
      actions={
        <Link className={buttonClass("secondary")} to={`/workspaces/${workspace.id}/ai/keys`}>
          All keys
        </Link>
      }
    >
      <ApprovalCard workspaceId={workspace.id} approval={approval} now={now} failed={failed} />
    </StudioPage>
  );
}
