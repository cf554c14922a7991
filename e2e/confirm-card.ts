import { expect, type Page } from "playwright/test";

/** Turns down what a card asks, and waits until it is gone: what stands below it moves as it goes. */
export async function turnDown(page: Page, question: string): Promise<void> {
  await page.getByRole("link", { name: "Cancel" }).click();
  await expect(page.getByRole("heading", { name: question })).toHaveCount(0);
}
