/** The sign-in page's bot challenge (abuse/bot-challenge-field.tsx). */
export interface BotToken {
  ready(): boolean;
  /** Takes the token, which is valid for one call. The widget then issues another token. */
  take(): string;
  /** Calls the listener whenever a token arrives or expires. */
  onChange(listener: () => void): void;
}

/** Returns the page's bot challenge, or null if it has none. */
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
