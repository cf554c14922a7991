import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { z } from "zod";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { redirectTarget } from "../../http/redirect-target.ts";
import { confirmAccess, listAccess, listPreselectedKeys, requireAccessOwner } from "../../session/account-access.ts";
import { AccessForm, type AccessRefusal } from "../../settings/access-form.tsx";
import { ServiceAccountsCard } from "../../settings/service-accounts-card.tsx";
import { leaveNotice } from "../../settings/settings-notice.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Card } from "../../ui/card.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle("Review account access");

const keyListSchema = z
  .string()
  .default("")
  .transform((text) => text.split(" ").filter(Boolean));
const decisionSchema = z.object({
  listedAt: z.iso.datetime({ offset: true }),
  listed: keyListSchema,
  sessions: keyListSchema,
  returnUrl: z.string().optional(),
});

const maxSelected = 1_000;

const refusals: Record<"last_method" | "last_of_required", AccessRefusal> = {
  last_method: {
    message: "Keep at least one way to sign in: a password, a passkey or a linked account.",
    kinds: ["password", "identity", "passkey"],
  },
  last_of_required: {
    message: "Your account requires an authenticator app. Add another one before you remove this one.",
    kinds: ["authenticator"],
  },
};

export async function loader({ request, context }: LoaderFunctionArgs) {
  const user = await requireAccessOwner(context, request);
  const access = await listAccess(context, user);
  const returnUrl = new URL(request.url).searchParams.get("returnUrl") ?? "";
  return {
    access,
    currentSessionId: user.sessionId,
    selected: listPreselectedKeys(context, { access, user }),
    returnUrl,
  };
}

/** Removes the selected items and confirms the rest. */
export async function action({ request, context }: ActionFunctionArgs) {
  const user = await requireAccessOwner(context, request);
  const form = await readForm(request, context, { maxFields: maxSelected });
  const sent = decisionSchema.safeParse(Object.fromEntries(form));
  if (!sent.success) {
    throw problem("INVALID_REQUEST", {
      requestId: context.requestId,
      detail: "This list is out of date. Open the page again, then repeat your choice.",
    });
  }
  const { returnUrl = "", ...list } = sent.data;
  const remove = [...form].flatMap(([name, key]) => (/^remove_\d+$/.test(name) ? [String(key)] : []));
  const outcome = await confirmAccess(context, { user, decision: { ...list, remove } });
  if (outcome.status !== "confirmed") {
    return data({ refusal: refusals[outcome.status], selected: remove, returnUrl }, { status: 409 });
  }
  if (returnUrl) throw redirect(redirectTarget(returnUrl, { context, fallback: "/" }), 303);
  leaveNotice(context, { card: "access", done: outcome.removed > 0 ? "removed" : "confirmed" });
  throw redirect("/settings/security#access", 303);
}

export default function AccessPage() {
  const { access, currentSessionId, ...page } = useLoaderData<typeof loader>();
  const refused = useActionData<typeof action>();
  return (
    <Page title="Review account access" lead="Everything that can open your account or act for it.">
      <Card title={access.email ?? "Your account"}>
        <AccessForm
          access={access}
          currentSessionId={currentSessionId}
          selected={refused?.selected ?? page.selected}
          returnUrl={refused?.returnUrl ?? page.returnUrl}
          refusal={refused?.refusal ?? null}
        />
      </Card>
      <ServiceAccountsCard accounts={access.serviceAccounts} />
    </Page>
  );
}
