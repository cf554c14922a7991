import { type ActionFunctionArgs, type AppLoadContext, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { readForm } from "../../http/form.ts";
import { withUploadSlot } from "../../http/upload-slots.ts";
import { type ImportErrors, importFormLimits } from "../../studio/costs/cost-import/import-choices.ts";
import { statusOfReview, takeImportStep } from "../../studio/costs/cost-import/import-steps.ts";
import { ImportReviewForm } from "../../studio/costs/cost-import/review-form.tsx";
import { CostUploadCard } from "../../studio/costs/cost-import/upload-card.tsx";
import { listLinkedApps } from "../../studio/invoices/invoice-entry.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Card } from "../../ui/card.tsx";
import { Select } from "../../ui/field.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requirePermission } from "../../workspaces/permission.ts";

export const meta = pageTitle("Import costs");

const permission = "use_ai_studio";

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { workspace, member } = await requirePermission(context, { request, params, permission });
  return { workspace, apps: await listLinkedApps(context, member) };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  const { workspace, member } = await requirePermission(context, { request, params, permission });
  const slot = { owner: member.userId, requestId: context.requestId, maxBytes: importFormLimits.maxBytes };
  return withUploadSlot(request, slot, async () => {
    const form = await readForm(request, context, importFormLimits);
    return importCosts(context, { workspace, member, form });
  });
}

async function importCosts(
  context: AppLoadContext,
  {
    workspace,
    member,
    form,
  }: Pick<Awaited<ReturnType<typeof requirePermission>>, "workspace" | "member"> & { form: FormData },
) {
  const apps = await listLinkedApps(context, member);
  const app = apps.find(({ id }) => id === form.get("appId"));
  if (!app) {
    const errors: ImportErrors = { appId: "Choose an app that is linked to this workspace" };
    return data({ at: "upload" as const, errors, appId: "" }, { status: 400 });
  }
  const entry = await takeImportStep(context, { member, appId: app.id, form });
  switch (entry.at) {
    case "receipt":
      throw redirect(`/workspaces/${workspace.id}/ai/costs/imports/${entry.importId}?imported`, 303);
    case "upload":
      return data({ at: entry.at, errors: { upload: entry.error } as ImportErrors, appId: app.id }, { status: 400 });
    case "review":
      return data({ ...entry, app }, { status: statusOfReview(entry.review) });
  }
}

export default function ImportCostsPage() {
  const { workspace, apps } = useLoaderData<typeof loader>();
  const entry = useActionData<typeof action>();
  const page = `/workspaces/${workspace.id}/ai/costs/import`;
  return (
    <StudioPage
      title={entry?.at === "review" ? "Review the costs" : "Import costs"}
      lead={
        entry?.at === "review"
          ? "Check what the file contains and what it changes, then import it."
          : "Import a provider’s cost export as one total per account and day. A later import for the same day, from a file or the API, replaces the earlier one."
      }
    >
      {entry?.at === "review" ? (
        <ImportReviewForm
          review={entry.review}
          uploadTo={page}
          hidden={{ appId: entry.app.id }}
          facts={[["App", entry.app.name]]}
        />
      ) : null}
      {entry?.at !== "review" && apps.length > 0 ? (
        <CostUploadCard errors={entry?.errors ?? {}}>
          <Select
            name="appId"
            label="App"
            hint="The app that these costs are for."
            required
            error={entry?.errors.appId}
            defaultValue={entry?.appId || (apps.length === 1 ? apps[0]?.id : "")}
          >
            {apps.length === 1 ? null : <option value="">Choose</option>}
            {apps.map(({ id, name }) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
          </Select>
        </CostUploadCard>
      ) : null}
      {apps.length === 0 ? (
        <Card
          title="No app is linked to this workspace"
          lead="Costs belong to the app that caused them. Ask a platform administrator to register the app and link it to this workspace, then import its costs here."
        />
      ) : null}
    </StudioPage>
  );
}
