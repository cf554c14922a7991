import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { readForm } from "../../http/form.ts";
import { addReturnUrl } from "../../http/redirect-target.ts";
import { maskEmail } from "../../session/mailed-link.ts";
import { getUserLabel, requireUser } from "../../session/user.ts";
import { AccountForm } from "../../ui/account-form.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";
import { workspaceProblem } from "../../workspaces/failures.ts";
import { acceptInvitation, invitationTokenSchema, previewInvitation } from "../../workspaces/invitations.ts";
import { roleLabel } from "../../workspaces/roles.ts";

export const meta = pageTitle("Invitation");

/** Shows what an invitation offers. Accepts nothing, so that a mail scanner's visit adds no member. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const user = await requireUser(context, request);
  const token = invitationTokenSchema.safeParse(new URL(request.url).searchParams.get("token"));
  const offer = token.success
    ? await previewInvitation(user, { token: token.data, requestId: context.requestId })
    : null;
  // Anyone with the link can open this page.
  const shown = offer && { ...offer, email: offer.forYou ? offer.email : maskEmail(offer.email) };
  const answer = { email: getUserLabel(user), token: token.data ?? "", offer: shown };
  return data(answer, { status: offer ? 200 : 404 });
}

export async function action({ request, context }: ActionFunctionArgs) {
  const user = await requireUser(context, request);
  const token = invitationTokenSchema.safeParse((await readForm(request, context)).get("token"));
  const accepted = token.success ? await acceptInvitation(user, token.data) : null;
  if (accepted && "workspaceId" in accepted) throw redirect(`/workspaces/${accepted.workspaceId}`);
  if (accepted && accepted.error.code !== "PT404") throw workspaceProblem(accepted.error, context);
  return data({ message: "This invitation can no longer be accepted. Ask for a new one." }, { status: 410 });
}

const endings = {
  unknown:
    "It was replaced by a newer one, or the link is incomplete. Look for a newer email, or ask for a new invitation.",
  accepted: "It was already accepted.",
  expired: "It has expired. Ask for a new one.",
  withdrawn: "It was withdrawn. Contact the person who invited you.",
} as const;

export default function InvitationPage() {
  const { email, token, offer } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>();
  const state = offer?.state ?? "unknown";
  if (!offer || state !== "open") {
    return (
      <EntryPage title="This invitation no longer works" lead={state === "open" ? undefined : endings[state]}>
        <ButtonLink href="/workspaces" variant="primary" className="w-full">
          Go to your workspaces
        </ButtonLink>
      </EntryPage>
    );
  }
  const { workspaceName, invitedBy, role, forYou, email: invited } = offer;
  return (
    <EntryPage
      title={`Join ${workspaceName}`}
      lead={`${invitedBy ?? "A member"} invited you to join this workspace with the role “${roleLabel(role)}”.`}
    >
      <ErrorSummary id="invitation-error" form={failed?.message} />
      {forYou ? (
        <AccountForm className="space-y-4">
          <input type="hidden" name="token" value={token} />
          <p>
            You’ll join as <strong className="font-semibold">{email}</strong>.
          </p>
          <Button className="w-full">Join workspace</Button>
          <ButtonLink href="/" variant="quiet" className="w-full">
            Not now
          </ButtonLink>
        </AccountForm>
      ) : (
        <>
          <p>
            This invitation is for <strong className="font-semibold">{invited}</strong>, but you’re signed in as{" "}
            <strong className="font-semibold">{email}</strong>. Use another account to accept it.
          </p>
          <ButtonLink
            href={addReturnUrl("/add-account", `/invitation?${new URLSearchParams({ token })}`)}
            variant="primary"
            className="w-full"
          >
            Use another account
          </ButtonLink>
        </>
      )}
    </EntryPage>
  );
}
