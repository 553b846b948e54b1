// SPDX-License-Identifier: MIT
/** Messages by Log4j 2 or Logback, as their configuration in the class path says. Says how many: "N events". */
public final class Appenders {
    public static void main(String[] arguments) {
        if (arguments[0].equals("log4j")) {
            org.apache.logging.log4j.Logger logger = org.apache.logging.log4j.LogManager.getLogger("shop.orders");
            for (int number = 0; number < 50; number++) {
                logger.info("order {} of {}", number, "Ada");
                logger.trace("not enabled");
            }
            logger.error("failed", new IllegalStateException("no money"));
        } else {
            org.slf4j.Logger logger = org.slf4j.LoggerFactory.getLogger("shop.orders");
            for (int number = 0; number < 50; number++) {
                logger.info("order {} of {}", number, "Ada");
                logger.trace("not enabled");
            }
            logger.error("failed", new IllegalStateException("no money"));
        }
        System.out.println("51 events");
    }
}
