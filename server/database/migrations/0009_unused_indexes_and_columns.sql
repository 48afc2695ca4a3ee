DROP INDEX "deliveries_dead";--> statement-breakpoint
DROP INDEX "sessions_expires";--> statement-breakpoint
DROP INDEX "users_unnamed";--> statement-breakpoint
ALTER TABLE "connections" DROP COLUMN "account_user_id";