import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.Result;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/** Runs JUnit classes and prints what failed, what took long, and the counts. */
public class RunTests {
    public static void main(String[] names) throws Exception {
        Class<?>[] classes = new Class<?>[names.length];
        for (int i = 0; i < names.length; i++) classes[i] = Class.forName(names[i]);
        JUnitCore core = new JUnitCore();
        core.addListener(new RunListener() {
            private long began;

            public void testStarted(Description test) { began = System.currentTimeMillis(); }

            public void testFailure(Failure failure) {
                System.out.println("FAILED " + failure.getDescription() + " " + failure.getTrace());
            }

            public void testIgnored(Description test) { System.out.println("IGNORED " + test); }

            public void testFinished(Description test) {
                long took = System.currentTimeMillis() - began;
                if (took > 3_000) System.out.println("LONG " + test + " " + took + " ms");
            }
        });
        Result result = core.run(classes);
        System.out.println("RUN " + result.getRunCount() + " FAILED " + result.getFailureCount()
            + " IGNORED " + result.getIgnoreCount() + " MS " + result.getRunTime());
        System.exit(result.wasSuccessful() ? 0 : 1);
    }
}
