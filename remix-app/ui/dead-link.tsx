import { ButtonLink } from "./button.tsx";
import { EntryPage } from "./entry-page.tsx";

const newLink = { href: "/signup/check-mail", label: "Get a new link" };
const waysOn: Record<string, { href: string; label: string }> = {
  recovery: { href: "/forgot-password", label: newLink.label },
  email_change: { href: "/settings/profile#email", label: "See your email settings" },
};

/** What a link that confirms nothing any more says, and the way on for its kind. */
export function DeadLink({ type }: { type: string | null }) {
  const way = (type && waysOn[type]) || newLink;
  return (
    <EntryPage
      title="This link no longer works"
      lead="It was used already, it is too old, or it is incomplete. If you confirmed before, just sign in."
    >
      <div className="flex flex-wrap gap-3">
        <ButtonLink href="/login" variant="primary">
          Sign in
        </ButtonLink>
        <ButtonLink href={way.href}>{way.label}</ButtonLink>
      </div>
    </EntryPage>
  );
}
