import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { z } from "zod";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { approvalFormSchema, changeApprovalRequest, readApproval } from "../../studio/keys/approval.ts";
import { ApprovalCard } from "../../studio/keys/approval-card.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requirePermission } from "../../workspaces/permission.ts";

export const meta = pageTitle<typeof loader>((data) => `Approval · ${data?.workspace.name ?? "Workspace"}`);

const permission = "manage_ai_keys";

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { workspace, member } = await requirePermission(context, { request, params, permission });
  return { workspace, approval: await readApproval(context, member) };
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
  const { workspace, approval } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>();
  return (
    <StudioPage
      title="API keys"
      actions={<ButtonLink href={`/workspaces/${workspace.id}/ai/keys`}>All keys</ButtonLink>}
    >
      <ApprovalCard workspaceId={workspace.id} approval={approval} failed={failed} />
    </StudioPage>
  );
}
