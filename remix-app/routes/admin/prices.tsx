import { type ActionFunctionArgs, type AppLoadContext, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { type FailedChange, failWithErrors, failWithRefusal } from "../../admin/failed-change.ts";
import { maxReviewed } from "../../admin/prices/compare-files.ts";
import { downloadConfigured } from "../../admin/prices/download.ts";
import { Findings } from "../../admin/prices/findings.tsx";
import { UnreadablePrices } from "../../admin/prices/price-source.ts";
import { maxSourceBytes, maxSourceSizeText, type PriceFile } from "../../admin/prices/read-source.ts";
import { addProposedPrices, readSelection, reviewSchema } from "../../admin/prices/review.ts";
import { compareFiles, readReview, saveReview } from "../../admin/prices/review-draft.ts";
import { ReviewForm } from "../../admin/prices/review-form.tsx";
import { namesFromProviders } from "../../admin/prices/source-names.ts";
import { UploadCard } from "../../admin/prices/upload-card.tsx";
import { type InfrastructureAdmin, requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { readProviderListing } from "../../gateway/provider-setup.ts";
import { readForm } from "../../http/form.ts";
import { withUploadSlot } from "../../http/upload-slots.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Card } from "../../ui/card.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

/** Allows two price files, or a row with a radio and up to 18 checkboxes for each price. */
const formLimits = { maxBytes: 2 * maxSourceBytes + 64 * 1024, maxFields: maxReviewed * 19 + 10, files: true };

export const meta = pageTitle("Price proposals · Console");

export async function loader({ request, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  return {
    configured: context.env.PRICE_SOURCE_URLS.map((url) => new URL(url).host),
    done: new URL(request.url).searchParams.has("done"),
  };
}

export async function action({ request, context }: ActionFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const slot = { owner: admin.id, requestId: context.requestId, maxBytes: formLimits.maxBytes };
  return withUploadSlot(request, slot, async () => {
    const form = await readForm(request, context, formLimits);
    return form.has("draft")
      ? await applyReviewedPrices(context, { admin, form })
      : await comparePriceFiles(context, { admin, form, signal: request.signal });
  });
}

async function comparePriceFiles(
  context: AppLoadContext,
  { admin, form, signal }: { admin: InfrastructureAdmin; form: FormData; signal: AbortSignal },
) {
  const failed = (message: string) => data({ upload: failWithRefusal({ message }, form) }, { status: 400 });
  try {
    const files = await readFiles(context, form);
    if (files.length === 0) return failed("Choose a price file.");
    // Without the functions' answer, a provider is named by its id.
    const { listing } = await readProviderListing(context, { signal });
    const names = namesFromProviders(listing?.providers ?? []);
    const compared = await compareFiles(context, { admin, files, names });
    if ("error" in compared) return failed(compared.error);
    const { prices, findings } = compared;
    const shown = { sources: findings.sources, prices };
    return data({ shown, draftId: await saveReview(context, { admin, shown }), findings });
  } catch (error) {
    if (error instanceof UnreadablePrices) return failed(error.message);
    throw error;
  }
}

async function readFiles({ env }: AppLoadContext, form: FormData): Promise<PriceFile[]> {
  if (form.get("source") === "configured") return downloadConfigured(env.PRICE_SOURCE_URLS);
  const files = [form.get("first"), form.get("second")].filter((file) => file instanceof File && file.size > 0);
  return Promise.all(
    (files as File[]).map(async (file) => {
      if (file.size > maxSourceBytes) {
        throw new UnreadablePrices(`${file.name} has more than ${maxSourceSizeText}: this isn’t a price file.`);
      }
      return { from: file.name, text: await file.text() };
    }),
  );
}

async function applyReviewedPrices(
  context: AppLoadContext,
  { admin, form }: { admin: InfrastructureAdmin; form: FormData },
) {
  const draftId = String(form.get("draft"));
  const shown = await readReview(context, { admin, draftId });
  if (!shown) {
    const message = "The review has expired. Compare the prices again.";
    return data({ upload: failWithRefusal({ message }, form) }, { status: 400 });
  }
  const failed = (review: FailedChange, status: number) => data({ shown, draftId, review }, { status });
  const parsed = reviewSchema.safeParse(Object.fromEntries(form));
  if (!parsed.success) return failed(failWithErrors(parsed.error, form), 400);
  const choices = readSelection(shown, new Map(form));
  if ("fault" in choices) return failed(failWithRefusal({ message: choices.fault }, form), 400);
  const { from, reason } = parsed.data;
  const done = await addProposedPrices(context, { admin, prices: choices.chosen, from, reason });
  if (done.outcome === "refused") return failed(failWithRefusal(done, form), done.status);
  throw redirect("/admin/prices?done", 303);
}

type ActionData = {
  upload?: FailedChange;
  review?: FailedChange;
  shown?: Parameters<typeof ReviewForm>[0]["shown"];
  draftId?: string;
  findings?: Parameters<typeof Findings>[0]["findings"];
};

export default function ConsolePricesPage() {
  const { configured, done } = useLoaderData<typeof loader>();
  const { upload, review, shown, draftId = "", findings } = (useActionData<typeof action>() ?? {}) as ActionData;
  return (
    <Page title="Price proposals" lead="Compare prices with public price files, and apply those you choose.">
      {done && !shown ? <Notice tone="good">The prices were added and are in the audit log.</Notice> : null}
      {shown ? null : <UploadCard configured={configured} failed={upload} />}
      {findings ? <Findings findings={findings} shown={shown?.prices.length ?? 0} /> : null}
      {shown && shown.prices.length > 0 ? (
        <Card
          title="Choose prices"
          lead="USD per million tokens; fees per request. You entered an authenticator code to get here. Apply the prices within 10 minutes of that, or you’ll have to compare the files again."
        >
          <ReviewForm shown={shown} draftId={draftId} failed={review} />
        </Card>
      ) : null}
    </Page>
  );
}
