import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { answerChange } from "../../admin/answer-change.ts";
import { ChangeForm } from "../../admin/change-form.tsx";
import { restoreChange } from "../../admin/failed-change.ts";
import {
  changeSignUp,
  confirmSignUpChange,
  readSignUpMode,
  signUpChangeSchema,
} from "../../admin/platform-settings.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { type SignUpMode, signUpChanges } from "../../admin/sign-up-mode.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle("Settings · Console");

const page = "/admin/settings";

export async function loader({ request, context }: LoaderFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const mode = await readSignUpMode(context);
  return {
    mode,
    destroys: confirmSignUpChange(mode),
    isChanged: new URL(request.url).searchParams.has("done"),
    restored: restoreChange(context, { request, admin }),
  };
}

export async function action({ request, context }: ActionFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  return answerChange(context, {
    request,
    schema: signUpChangeSchema,
    // A form about another mode is refused, so the mode that applies now decides what to type.
    destroys: confirmSignUpChange(await readSignUpMode(context)),
    change: (change) => changeSignUp(context, { ...change, admin }),
    to: () => `${page}?done`,
  });
}

const leads: Readonly<Record<SignUpMode, string>> = {
  open: "Sign-up is open: everyone may create an account.",
  invitation: "Sign-up is by invitation: only invited people may create an account.",
};

const effects: Readonly<Record<SignUpMode, readonly string[]>> = {
  open: [
    "Once you confirm, only people who were invited here or to a workspace, or who have a recovery override, can create an account.",
    "This includes sign-ups with an identity provider, single sign-on, and the Supabase dashboard.",
    "Existing accounts stay, and can sign in as before.",
  ],
  invitation: ["Once you confirm, everyone can create an account.", "Invitations stay as they are."],
};

export default function ConsoleSettingsPage() {
  const { mode, destroys, isChanged, restored } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>() ?? restored;
  return (
    <Page title="Settings" lead="What applies to the whole platform.">
      {isChanged && !failed ? <Notice tone="good">{leads[mode]}</Notice> : null}
      <Card
        id="sign-up"
        title="Sign-up"
        lead={leads[mode]}
        action={<ButtonLink href="/admin/invitations">Invitations</ButtonLink>}
      >
        <ChangeForm
          effects={effects[mode]}
          destroys={destroys}
          failed={failed}
          submit={signUpChanges[mode].title}
          cancelTo="/admin"
          hidden={{ seen: mode }}
        />
      </Card>
    </Page>
  );
}
