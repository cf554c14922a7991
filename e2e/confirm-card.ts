import { expect, type Page } from "playwright/test";

/** Cancels a card's question and waits until the card is gone, so that the content below it no longer moves. */
export async function turnDown(page: Page, question: string): Promise<void> {
  await page.getByRole("link", { name: "Cancel" }).click();
  await expect(page.getByRole("heading", { name: question })).toHaveCount(0);
}
