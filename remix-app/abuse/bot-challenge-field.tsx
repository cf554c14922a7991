import { Button } from "../ui/button.tsx";
import { InlineScript } from "../ui/inline-script.tsx";
import botChallengeScript from "./bot-challenge.js?raw";
import type { BotChallengeSettings } from "./bot-challenge.ts";

/**
 * Renders the bot challenge's widget in the form that it protects. Use it once per page, and call `showBotChallenge` in
 * the page's loader. Renders nothing if no bot challenge is configured. Other scripts on the page can rely on this:
 *
 * - `input[name=botChallengeToken]` in this element holds the token, or is empty before there is one.
 * - `document` receives the event `bot-challenge:change` after each change, with
 *     `detail: { token: string | null, reason: string }`. The reason says in words why the token is missing.
 * - A button with the attribute `data-needs-bot-challenge`, anywhere on the page, is blocked while the token is
 * missing.
 *     It has `aria-disabled` and the reason as its description. Its click events don't reach other listeners.
 * - A token is valid for one call. A script that sends the token without leaving the page dispatches
 *     `bot-challenge:used` on `document`, and the widget gets a new token.
 *
 * A form that is submitted too early waits for the token and then submits itself, unless the button has the attribute
 * `data-skips-bot-challenge` because it only opens another page.
 */
export function BotChallenge({ challenge }: { challenge: BotChallengeSettings | null }) {
  if (!challenge) return null;
  return (
    <div data-bot-challenge data-site-key={challenge.siteKey} data-script={challenge.scriptUrl} className="space-y-2">
      <input type="hidden" name="botChallengeToken" autoComplete="off" />
      {/*
       * Reserves the widget's height, so that the layout doesn't shift. On the narrowest screens, the widget is taller.
       */}
      <div data-bot-challenge-widget className="min-h-[65px] overflow-hidden max-[331px]:min-h-[140px]" />
      <p id="bot-challenge-status" role="status" className="text-muted text-small">
        {/* The script replaces this text immediately. */}
        This page needs JavaScript to verify that you’re human. Turn it on and reload the page.
      </p>
      <Button type="button" variant="secondary" hidden data-bot-challenge-retry>
        Try again
      </Button>
      <InlineScript source={botChallengeScript} />
    </div>
  );
}
