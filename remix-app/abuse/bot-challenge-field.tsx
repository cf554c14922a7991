import { Button } from "../ui/button.tsx";
import { InlineScript } from "../ui/inline-script.tsx";
import botChallengeScript from "./bot-challenge.js?raw";
import type { BotChallengeSettings } from "./bot-challenge.ts";

/**
 * The bot challenge's widget, in the form that it protects: one to a page, whose loader called `showBotChallenge`.
 * Renders nothing where none is configured. What other scripts of the page may count on:
 *
 * - `input[name=botChallengeToken]` in this element holds the token, or is empty while there is none.
 * - On `document`, the event `bot-challenge:change` follows each change, with `detail: { token: string | null, reason:
 *   string }`; the reason, in words, is why there is no token.
 * - A button with the attribute `data-needs-bot-challenge`, anywhere on the page, is blocked while there is no token
 *   (`aria-disabled`, and described by the reason); its click events reach nobody else then.
 * - A token is good for one call. Whoever sent it without leaving the page dispatches `bot-challenge:used` on
 *   `document`, and the widget makes another.
 *
 * A form that is sent too early waits for the token, and goes by itself.
 */
export function BotChallenge({ challenge }: { challenge: BotChallengeSettings | null }) {
  if (!challenge) return null;
  return (
    <div data-bot-challenge data-site-key={challenge.siteKey} data-script={challenge.scriptUrl} className="space-y-2">
      <input type="hidden" name="botChallengeToken" autoComplete="off" />
      {/* As high as the widget, which is compact on the smallest screens, so that nothing jumps when it arrives. */}
      <div data-bot-challenge-widget className="min-h-[65px] overflow-hidden max-[331px]:min-h-[140px]" />
      <p id="bot-challenge-status" role="status" className="text-muted text-small">
        {/* The script says something else at once. */}
        This page needs JavaScript to verify that you’re human. Turn it on and reload the page.
      </p>
      <Button type="button" variant="secondary" hidden data-bot-challenge-retry>
        Try again
      </Button>
      <InlineScript source={botChallengeScript} />
    </div>
  );
}
