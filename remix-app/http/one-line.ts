/** Whether a text is one line of whole characters: whatever else JSON may hold, no database keeps and no page shows. */
export function isOneLine(text: string): boolean {
  return text.isWellFormed() && !/\p{Cc}/u.test(text);
}
