import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { ReasonField } from "../../admin/change-fields.tsx";
import { importCosts } from "../../books/import-costs.ts";
import { requireBook } from "../../books/require-book.ts";
import { ClosedMonths } from "../../books/statements/closed-months.tsx";
import { readForm } from "../../http/form.ts";
import { withUploadSlot } from "../../http/upload-slots.ts";
import { importFormLimits } from "../../studio/costs/cost-import/import-choices.ts";
import { statusOfImport } from "../../studio/costs/cost-import/import-steps.ts";
import { ImportReviewForm } from "../../studio/costs/cost-import/review-form.tsx";
import { CostUploadCard } from "../../studio/costs/cost-import/upload-card.tsx";
import { AppSelect } from "../../studio/invoices/app-select.tsx";
import { listLinkedApps } from "../../studio/invoices/invoice-entry.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Card } from "../../ui/card.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";

export const meta = pageTitle<typeof loader>((data) =>
  data?.book.isPlatform ? `Import costs · ${data.book.name}` : "Import costs",
);

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { book, member } = await requireBook(context, { request, params });
  // The platform's costs belong to no app.
  return { book, apps: book.isPlatform ? null : await listLinkedApps(context, member) };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  const { book, member } = await requireBook(context, { request, params });
  const slot = { owner: member.userId, requestId: context.requestId, maxBytes: importFormLimits.maxBytes };
  return withUploadSlot(request, slot, async () => {
    const form = await readForm(request, context, importFormLimits);
    const entry = await importCosts(context, { book, member, form });
    if (entry.at === "receipt") throw redirect(`${book.receipts}/${entry.importId}?imported`, 303);
    const typed = { appId: String(form.get("appId") ?? ""), reason: String(form.get("reason") ?? "") };
    return data({ ...entry, typed }, { status: statusOfImport(entry) });
  });
}

export default function ImportCostsPage() {
  const { book, apps } = useLoaderData<typeof loader>();
  const entry = useActionData<typeof action>();
  const closedMonths = (entry?.at === "review" && entry.review.preview?.closedMonths) || [];
  const app = apps?.find(({ id }) => id === entry?.typed.appId);
  return (
    <StudioPage
      title={entry?.at === "review" ? "Review the costs" : "Import costs"}
      lead={
        entry?.at === "review"
          ? "Check what the file contains and what it changes, then import it."
          : book.isPlatform
            ? "Add a provider’s cost export to the platform’s books, as one total per account and day. A newer file replaces the totals of the days it covers."
            : "Import a provider’s cost export as one total per account and day. A later import for the same day, from a file or the API, replaces the earlier one."
      }
    >
      {closedMonths.length > 0 ? <ClosedMonths months={closedMonths} /> : null}
      {entry?.at === "review" ? (
        <ImportReviewForm
          review={entry.review}
          uploadTo={book.costImport}
          hidden={app ? { appId: app.id } : {}}
          facts={app ? [["App", app.name]] : []}
        >
          {book.isPlatform ? (
            <>
              <ReasonField defaultValue={entry.typed.reason} error={entry.review.errors.reason} />
              <p className="text-muted">
                You entered an authenticator code to get here. Import within 10 minutes of that, or you’ll have to
                upload the file again.
              </p>
            </>
          ) : null}
        </ImportReviewForm>
      ) : apps?.length === 0 ? (
        <Card
          title="No app is linked to this workspace"
          lead="Costs belong to the app that caused them. Ask a platform administrator to register the app and link it to this workspace, then import its costs here."
        />
      ) : (
        <CostUploadCard errors={entry?.errors ?? {}}>
          {apps ? (
            <AppSelect
              apps={apps}
              hint="The app that these costs are for."
              chosen={app?.id}
              error={entry?.errors.appId}
            />
          ) : null}
        </CostUploadCard>
      )}
    </StudioPage>
  );
}
