import { type ActionFunctionArgs, type AppLoadContext, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData } from "@remix-run/react";
import { takePlatformStep } from "../../admin/books/platform-import.ts";
import { type InfrastructureAdmin, requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { readForm } from "../../http/form.ts";
import { withUploadSlot } from "../../http/upload-slots.ts";
import { importFormLimits } from "../../studio/costs/cost-import/import-choices.ts";
import { ImportReviewForm } from "../../studio/costs/cost-import/review-form.tsx";
import { CostUploadCard } from "../../studio/costs/cost-import/upload-card.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Field } from "../../ui/field.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle("Import costs · Books · Console");

export async function loader({ request, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  return null;
}

export async function action({ request, context }: ActionFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const slot = { owner: admin.id, requestId: context.requestId, maxBytes: importFormLimits.maxBytes };
  return withUploadSlot(request, slot, async () => {
    const form = await readForm(request, context, importFormLimits);
    return importCosts(context, { admin, form });
  });
}

async function importCosts(context: AppLoadContext, { admin, form }: { admin: InfrastructureAdmin; form: FormData }) {
  const entry = await takePlatformStep(context, { admin, form });
  switch (entry.at) {
    case "receipt":
      throw redirect(`/admin/books/imports/${entry.importId}?imported`, 303);
    case "upload":
      return data({ at: entry.at, errors: { upload: entry.error } }, { status: 400 });
    case "review": {
      const { errors, again } = entry.review;
      const status = Object.keys(errors).length > 0 ? 400 : again ? 409 : 200;
      const typed = { reason: String(form.get("reason") ?? "") };
      return data({ ...entry, typed }, { status });
    }
  }
}

export default function ConsoleImportPage() {
  const entry = useActionData<typeof action>();
  return (
    <Page
      title={entry?.at === "review" ? "Review the costs" : "Import costs"}
      lead={
        entry?.at === "review"
          ? "Check what the file contains and what it changes, then import it."
          : "Add a provider’s cost export to the platform’s books, as one total per account and day. A newer file replaces the totals of the days it covers."
      }
    >
      {entry?.at === "review" ? (
        <ImportReviewForm review={entry.review} uploadTo="/admin/books/import">
          <Field
            name="reason"
            label="Reason"
            hint="Recorded permanently in the audit log."
            maxLength={500}
            required
            autoComplete="off"
            defaultValue={entry.typed.reason}
            error={entry.review.errors.reason}
          />
          <Field
            name="confirmation"
            label={`Type “${entry.review.choices.provider}” to confirm`}
            hint="This is the provider’s name. You entered an authenticator code to get here. Import within 10 minutes of that, or you’ll have to upload the file again."
            required
            autoComplete="off"
            autoCapitalize="none"
            spellCheck={false}
            error={entry.review.errors.confirmation}
          />
        </ImportReviewForm>
      ) : (
        <CostUploadCard errors={entry?.errors ?? {}} />
      )}
    </Page>
  );
}
