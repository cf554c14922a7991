import { type ActionFunctionArgs, type AppLoadContext, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData } from "@remix-run/react";
import { requirePlatformBook } from "../../admin/books/platform-book.ts";
import { takePlatformStep } from "../../admin/books/platform-import.ts";
import { readForm } from "../../http/form.ts";
import { withUploadSlot } from "../../http/upload-slots.ts";
import { importFormLimits } from "../../studio/costs/cost-import/import-choices.ts";
import { statusOfReview } from "../../studio/costs/cost-import/import-steps.ts";
import { ImportReviewForm } from "../../studio/costs/cost-import/review-form.tsx";
import { CostUploadCard } from "../../studio/costs/cost-import/upload-card.tsx";
import type { StudioMember } from "../../studio/studio-reader.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Field } from "../../ui/field.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle("Import costs · Books · Console");

export async function loader({ request, context }: LoaderFunctionArgs) {
  await requirePlatformBook(context, request);
  return null;
}

export async function action({ request, context }: ActionFunctionArgs) {
  const member = await requirePlatformBook(context, request);
  const slot = { owner: member.userId, requestId: context.requestId, maxBytes: importFormLimits.maxBytes };
  return withUploadSlot(request, slot, async () => {
    const form = await readForm(request, context, importFormLimits);
    return importCosts(context, { member, form });
  });
}

async function importCosts(context: AppLoadContext, { member, form }: { member: StudioMember; form: FormData }) {
  const entry = await takePlatformStep(context, { member, form });
  switch (entry.at) {
    case "receipt":
      throw redirect(`/admin/books/imports/${entry.importId}?imported`, 303);
    case "upload":
      return data({ at: entry.at, errors: { upload: entry.error } }, { status: 400 });
    case "review": {
      const typed = { reason: String(form.get("reason") ?? "") };
      return data({ ...entry, typed }, { status: statusOfReview(entry.review) });
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
