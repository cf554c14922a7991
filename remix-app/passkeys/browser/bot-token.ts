/** The sign-in page's bot challenge, as ui/bot-challenge.tsx describes it. */
export interface BotToken {
  /** Whether there is a token. */
  ready(): boolean;
  /** Takes the token, which is good for one call; the widget makes another. */
  take(): string;
  /** Calls back whenever there is a token, or none any more. */
  onChange(listener: () => void): void;
}

/** The page's bot challenge; null where there is none. */
export function findBotToken(): BotToken | null {
  const field = document.querySelector<HTMLInputElement>("[data-bot-challenge] input[name=botChallengeToken]");
  if (!field) return null;
  return {
    ready: () => field.value !== "",
    take() {
      const { value } = field;
      document.dispatchEvent(new Event("bot-challenge:used"));
      return value;
    },
    onChange: (listener) => document.addEventListener("bot-challenge:change", listener),
  };
}
